"""Where a dtype came from: each rule once, and followed to its origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import truecast as tc
from truecast.capture.observer import observe, observed
from truecast.diagnose.flow import Flow, Step

HALF = torch.ones(2, 4, dtype=torch.bfloat16)
WIDE = torch.ones(2, 4)


def last(function: Callable[[], Any]) -> tuple[Flow, Step]:
    """The Flow of a call, and the step of the last value that it made."""
    with observed() as tape:
        function()
        graph, observations = tape.recorded("f"), tape.observations
    flow = Flow(graph, observations)
    value = graph.nodes[-1].outputs[0]
    assert value is not None
    return flow, flow.step(value)


def autocast_product() -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return WIDE.t().contiguous() @ WIDE


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda: HALF * WIDE, "promotion"),
        (lambda: WIDE[:, :1] * HALF, "promotion"),
        (lambda: HALF * torch.ones(()), "follows"),
        (lambda: HALF * 2.0, "follows"),
        (lambda: torch.arange(3) * 1.5, "default"),
        (lambda: torch.arange(3) + torch.ones(3, dtype=torch.bfloat16), "category"),
        (lambda: HALF.float(), "cast"),
        (lambda: HALF.to(torch.float64), "cast"),
        (lambda: HALF.view(4, 2), "follows"),
        (lambda: torch.ones(3), "factory"),
        (lambda: HALF > 1, "result"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_each_rule(function: Callable[[], Any], why: str) -> None:
    assert last(function)[1].why == why


def test_autocast_is_told_from_the_programs_own_cast() -> None:
    flow, product = last(autocast_product)
    assert product.node is not None
    assert [flow.step(v).why for v in product.node.inputs] == ["autocast", "autocast"]


def test_the_operand_that_decided() -> None:
    _, step = last(lambda: HALF * WIDE)
    assert step.because is not None and step.because.dtype.name == "float32"
    assert [v.dtype.name for v in step.outvoted] == ["bfloat16"]


def test_an_origin_is_found_through_views_writes_and_functions() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g * 2

    def program() -> None:
        wide = HALF.float()
        wide.add_(1)
        wide.view(8)[2:].mul_(3)
        Double.apply(wide.t()) + 1

    flow, step = last(program)
    origin = flow.origin(step.value)
    assert origin.why == "cast"
    assert origin.site.expression == "HALF.float()"


def test_a_parameter_is_known_by_its_path_through_views_and_casts() -> None:
    layer = torch.nn.Linear(4, 4)

    def program() -> None:
        layer(WIDE)
        layer.weight.t().bfloat16()

    flow, step = last(program)
    assert flow.parameter(step.value) == "weight"
    assert Flow(flow.graph).parameter(step.value) == "weight"  # an input's path is enough


DTYPES = st.sampled_from([torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64])
SHAPES = st.sampled_from([(), (1,), (2, 3)])


@settings(max_examples=60, deadline=None)
@given(DTYPES, SHAPES, DTYPES, SHAPES)
def test_who_decides_agrees_with_pytorch(a: torch.dtype, s: Any, b: torch.dtype, t: Any) -> None:
    """A promotion is where PyTorch's result is a dimensioned operand's wider dtype; the decider has that dtype."""
    x, y = torch.ones(s if len(s) < 2 else (2, 3), dtype=a), torch.ones(t if len(t) < 2 else (2, 3), dtype=b)
    _, step = last(lambda: x + y)
    result = torch.result_type(x, y)
    assert str(step.value.dtype) == str(result).removeprefix("torch.")
    same_form = bool(s) and bool(t)
    both = a.is_floating_point and b.is_floating_point
    assert (step.why == "promotion") == (both and same_form and a.itemsize != b.itemsize)
    if step.why in ("promotion", "follows"):
        assert step.because is not None and step.because.dtype is step.value.dtype


def test_explain_leaves_the_program_as_it_was() -> None:
    layer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
    before = layer.weight.detach().clone()

    def step(x: torch.Tensor) -> None:
        layer(x).float().sum().backward()

    report = tc.explain(step, WIDE)
    assert [f.code for f in report.findings] == ["TC101"]
    assert layer.weight.grad is None and torch.equal(layer.weight, before)
    assert report.findings[0].why == "`x` comes in as float32; a linear layer demands equal dtypes"


def test_explain_says_what_stopped_the_program() -> None:
    def broken(x: torch.Tensor) -> Any:
        return (x + 1) @ x

    report = tc.explain(broken, WIDE)
    assert report.findings == () and report.operations == 1
    assert report.stopped.startswith("the program stopped: RuntimeError: ")

    def branches(x: torch.Tensor) -> Any:
        return x * 2 if x.sum() > 1 else x

    assert "asks for the contents of a tensor" in tc.explain(branches, WIDE).stopped


def test_an_operation_that_cannot_be_mended_raises_as_in_pytorch() -> None:
    with (
        pytest.raises(RuntimeError, match=r"index_select\(\): Expected dtype int32 or int64 for index"),
        observed() as t,
    ):
        WIDE.index_select(0, torch.tensor([1.0]))
    assert [r.op for r in t.observations.refusals] == ["aten.index_select.default"]


def test_observations_of_an_optimizer_step() -> None:
    layer = torch.nn.Linear(4, 4, bias=False, dtype=torch.bfloat16)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-4)
    with observed() as tape:
        layer(HALF).sum().backward()
        optimizer.step()
    (update,) = tape.observations.updates
    assert (update.path, update.dtype.name, update.pushed, update.unmoved) == ("weight", "bfloat16", 16, 16)
    assert update.site.expression == "optimizer.step()"


def test_observe_names_inputs() -> None:
    seen = observe(lambda sigma, x: x * sigma, (WIDE, HALF))
    assert [entry.path for entry in seen.graph.inputs] == ["sigma", "x"]
    assert seen.error is None


def test_one_cause_at_several_lines_is_one_finding() -> None:
    first = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
    second = torch.nn.Linear(4, 4, dtype=torch.bfloat16)

    def program() -> None:
        wide = HALF * WIDE
        first(wide)
        second(wide)
        second(wide)

    with tc.recording() as tape:
        program()
    (finding,) = tape.explain().findings
    assert (finding.code, finding.count) == ("TC101", 3)
    assert [p.role for p in finding.places] == ["symptom", "origin", "related", "related"]


def test_a_fake_module_can_be_converted() -> None:
    with tc.recording(fake=True) as tape:
        layer = torch.nn.Linear(4, 4)
        layer = layer.to(torch.bfloat16)
        layer(torch.ones(2, 4, dtype=torch.bfloat16))
    assert tape.explain().findings == ()
    assert tape.graph.nodes[-1].outputs[0] is not None
    assert tape.graph.nodes[-1].outputs[0].dtype.name == "bfloat16"


def test_a_long_chain_takes_no_deep_stack() -> None:
    layer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)

    def program() -> None:
        x, y = torch.ones(2, 4, dtype=torch.bfloat16), torch.ones(2, 4)
        for _ in range(3000):
            x = x + y
        layer(x)

    with tc.recording() as tape:
        program()
    (finding,) = tape.explain().findings
    origin = finding.places[1]
    assert (
        finding.code == "TC101" and origin.role == "origin" and origin.text.startswith("bfloat16[2,4] + float32[2,4]")
    )

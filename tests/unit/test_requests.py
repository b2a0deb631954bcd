"""What a program asks for beside its operations is noted as it was asked, and nothing of it is changed."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import truecast as tc
from truecast import dtypes
from truecast.capture.observer import observe, observed
from truecast.diagnose.checks import list_gap
from truecast.diagnose.flow import Flow
from truecast.observations import Observations

HALF = torch.ones(2, 4, dtype=torch.bfloat16)


def seen(function: Callable[[], Any]) -> Observations:
    with observed() as tape, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function()
        return tape.observations


def regions() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        torch.ones(2)
        with torch.autocast("cpu", enabled=False):
            torch.ones(3)
        torch.ones(4)
    with torch.autocast("cuda", torch.float16):
        torch.ones(5)


def test_regions_are_those_that_were_asked_for() -> None:
    found = seen(regions)
    assert [(r.device_type, str(r.dtype), r.enabled) for r in found.regions] == [
        ("cpu", "bfloat16", True),
        ("cuda", "float16", torch.cuda.is_available()),
    ]
    assert [call.region for call in found.calls.values()] == [0, -1, 0, 1]
    assert found.regions[0].site.text.strip() == 'with torch.autocast("cpu", torch.bfloat16):'


def test_a_decorated_function_is_a_region_and_checkpointing_adds_none() -> None:
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(2, 2)

    @torch.autocast("cpu", torch.bfloat16)
    def step() -> torch.Tensor:
        result: torch.Tensor = checkpoint(layer, torch.ones(1, 2, requires_grad=True), use_reentrant=False)
        return result

    assert len(seen(lambda: step().float().sum().backward()).regions) == 1


def test_listening_ends_with_the_recording() -> None:
    patched = (torch.autocast.__enter__, torch.autograd.Function.apply, torch.from_numpy, torch.amp.GradScaler.step)
    before = [getattr(f, "__func__", f) for f in patched]
    seen(lambda: None)
    with contextlib.suppress(ValueError):
        seen(lambda: (_ for _ in ()).throw(ValueError()))
    after = (torch.autocast.__enter__, torch.autograd.Function.apply, torch.from_numpy, torch.amp.GradScaler.step)
    assert [getattr(f, "__func__", f) for f in after] == before
    assert "__setattr__" not in vars(type(torch.backends.cudnn))


def test_flags_are_noted_where_the_program_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # PyTorch's own test modules freeze the flags of the process that imports them.
    names: dict[str, Any] = torch.backends.ContextProp.__set__.__globals__
    monkeypatch.setitem(names, "__allow_nonbracketed_mutation_flag", True)
    before = torch.get_float32_matmul_precision()

    def flags() -> None:
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32
        with torch.backends.cudnn.flags(allow_tf32=False):  # PyTorch's own context sets and restores it
            pass

    try:
        found = seen(flags)
    finally:
        torch.set_float32_matmul_precision(before)
    assert [f.name for f in found.flags] == ["torch.set_float32_matmul_precision", "torch.backends.cudnn.allow_tf32"]
    assert found.flags[0].site.expression == 'torch.set_float32_matmul_precision("high")'


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * 2


apply_bound_before = Double.apply


def test_values_of_custom_functions_are_known_forward_and_backward() -> None:
    found = seen(lambda: Double.apply(torch.ones(2, requires_grad=True)).sum().backward())
    assert set(found.functions) == {"Double"} and not found.functions["Double"].has_policy
    assert [name.split("_")[0] for name in found.custom] == ["mul", "mul"]


def test_a_function_bound_before_is_known_by_its_backward() -> None:
    found = seen(lambda: apply_bound_before(torch.ones(2, requires_grad=True)).sum().backward())
    assert set(found.functions) == {"Double"}


def test_a_policy_is_seen_under_other_decorators() -> None:
    from truecast.capture.requests import _has_policy

    decorated = torch.no_grad()(torch.amp.custom_fwd(device_type="cpu")(lambda ctx, x: x))
    assert _has_policy(decorated)
    assert not _has_policy(torch.no_grad()(lambda ctx, x: x))


def rule_of(function: Callable[[], torch.Tensor]) -> str:
    with observed() as tape:
        result = function()
        name = tape.memory.read(result).name
        flow = Flow(tape.recorded("f"), tape.observations)
    values = [*(e.value for e in flow.graph.inputs), *(v for n in flow.graph.nodes for v in n.outputs if v)]
    return flow.rule(flow.origin(next(v for v in values if v.name == name)))


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (lambda: HALF * torch.ones(2, 4), "promotion between dimensioned tensors"),
        (lambda: torch.arange(3) * torch.tensor(0.5), "a 0-dim tensor of another category"),
        (lambda: torch.arange(3) + torch.ones(3, dtype=torch.bfloat16), "a dimensioned tensor of another category"),
        (lambda: torch.arange(3) * 0.5, "a Python number beside integers"),
        (lambda: torch.arange(3) * np.float64(0.5), "a NumPy scalar beside integers"),
        (lambda: torch.ones(3) * 1j, "a Python number beside real numbers"),
        (lambda: torch.ones(3) * np.complex128(1j), "a NumPy scalar beside real numbers"),
        (lambda: torch.from_numpy(np.ones(3)) * 2, "a NumPy array"),
        (lambda: torch.tensor(np.float64(3.0)) * 2, "a NumPy scalar"),
        (lambda: torch.as_tensor(np.ones(3)).view(3, 1), "a NumPy array"),
        (lambda: torch.tensor([1.0, 2.0]).view(2, 1), "an input"),
        (lambda: torch.ones(3) + 1, "a factory's default"),
        (lambda: torch.ones(3, dtype=torch.float64) + 1, "a factory's dtype"),
        (lambda: HALF.float() * 2, "an explicit cast"),
        (lambda: torch.nn.Linear(2, 2).weight.t() * 1, "a module's parameter"),
        (lambda: HALF > 1, "what the operation returns"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_the_rule_is_named(function: Callable[[], torch.Tensor], rule: str) -> None:
    assert rule_of(function) == rule


def test_autocasts_list_is_named() -> None:
    with observed() as tape:
        with torch.autocast("cpu", torch.bfloat16):
            torch.ones(2, 2) @ torch.ones(2, 2)
        flow = Flow(tape.recorded("f"), tape.observations)
    assert flow.rule(flow.step(next(flow.graph.nodes[-1].inputs))) == "the autocast list of cpu"


@pytest.mark.parametrize(
    ("device", "codes"), [("xla", ["TC401"]), ("neuron", ["TC401"]), ("cuda", []), ("cpu", []), ("mps", [])]
)
def test_attention_in_float32_is_left_out_by_xla_alone(device: str, codes: list[str]) -> None:
    """As on a device that isn't here: the calls are those of its region, and its lists convert nothing."""
    query = torch.ones(1, 1, 2, 4)
    with observed() as tape:
        torch.nn.functional.scaled_dot_product_attention(query, query, query)
        query.transpose(2, 3) @ query
        graph, noted = tape.recorded("f"), tape.observations
    calls = {n: replace(c, autocast=dtypes.bfloat16, autocast_device=device) for n, c in noted.calls.items()}
    found = list(list_gap.check(Flow(graph, replace(noted, calls=calls))))
    assert [f.code for f in found] == codes
    assert all("runs in bfloat16" in f.why and "attention" in f.message for f in found)


def test_a_call_on_fake_tensors_listens_too() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x + 1

    found = observe(program, (torch.ones(2),)).observations
    assert [r.device_type for r in found.regions] == ["cpu"]
    assert [f.code for f in tc.explain(program, torch.ones(2)).findings] == ["TC602"]


def test_the_step_of_a_scaler_is_told_from_the_optimizers_own() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")

    def steps() -> None:
        scaler.scale(model(torch.ones(1, 2)).sum()).backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.data.mul_(0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.step()

    assert [e.what for e in seen(steps).scaling] == ["scale", "change", "change", "step", "update"]


def test_dtypes_of_state_are_followed_over_steps() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())

    def steps() -> None:
        for dtype in (torch.float32, torch.float32, torch.float64):
            model.to(dtype)
            model(torch.ones(1, 2, dtype=dtype)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            for held in optimizer.state.values():
                held["exp_avg_sq"] = held["exp_avg_sq"].to(dtype)

    changes = seen(steps).changes
    assert {(c.what, str(c.before), str(c.after)) for c in changes} >= {("parameter", "float32", "float64")}
    assert {c.when for c in changes} <= {"between two steps", "in the step"}
    assert {c.path for c in changes if c.what == "parameter"} == {"0.weight", "0.bias"}

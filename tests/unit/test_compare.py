"""`compare` end to end: small cases by hand, planted differences, decisions, training, what float64 can't stand for."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

import truecast as tc
from truecast.api.comparing import compare
from truecast.cli.app import run
from truecast.diagnose.drift import NodeDrift
from truecast.errors import ContractError, UsageError
from truecast.numerics.numerics import Numerics

EAGER = Numerics.preset("eager")


def bfloat16(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.bfloat16)


def by_op(drift: Any) -> dict[str, NodeDrift]:
    return {node.op: node for node in drift.measured.nodes}


def test_it_is_public() -> None:
    assert tc.compare is compare


def test_one_product_by_hand() -> None:
    # (1 + 2^-7)^2 = 1 + 2^-6 + 2^-14; a bfloat16 near 1 has steps of 2^-7, so 2^-14 is lost.
    x = bfloat16(1 + 2**-7)
    (node,) = compare(torch.mul, x, x, a="eager", b="cpu").measured.nodes
    exact = Fraction(129, 128) ** 2
    lost = Fraction(1, 2**14)
    assert Fraction(node.a.rms) == pytest.approx(lost / exact)
    assert node.a.ulps_largest == 2.0**-7
    assert node.ratios == (1.0, 1.0) and node.differing == 0


def test_a_sum_held_in_bfloat16_loses_what_one_in_float32_keeps() -> None:
    torch.manual_seed(0)
    drift = compare(lambda x: x.sum(1), torch.rand(32, 4096).bfloat16(), a="eager", b="torch_xla-2.9")
    (node,) = drift.measured.nodes
    ratio_a, ratio_b = node.ratios
    assert ratio_a == pytest.approx(1, abs=0.05)
    assert ratio_b is not None and ratio_b > 1.3, "XLA:CPU adds in a tree: in order, it would be far more"
    assert len(drift.gate(ratio=1.2)) == 1 and drift.gate(ratio=1.01 * ratio_b) == ()


def chain(x: torch.Tensor) -> torch.Tensor:
    y = torch.exp(x * 0.5)
    z = torch.tanh(y)
    return z.sum(0)


def test_a_planted_rule_is_where_they_part() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 16).bfloat16()
    for op, coarse in (
        ("aten.tanh.default", {"compute": "float8_e4m3fn"}),
        ("aten.exp.default", {"compute": "float8_e4m3fn"}),
        ("aten.sum.dim_IntList", {"accumulate": "same"}),
    ):
        drift = compare(chain, x, a=EAGER, b=EAGER.with_rule(op=op, **coarse))
        parting = drift.measured.first_parting
        assert parting is not None and parting.op == op
        assert next(n.op for n in drift.measured.nodes if n.differing) == op
        assert by_op(drift)[op].ratios[1] > 1.5 * by_op(drift)[op].ratios[0]  # type: ignore[operator]
        assert parting.site.function == "chain" and parting.site.line > 0


def test_inside_a_region_one_policy_rounds_and_the_other_does_not() -> None:
    torch.manual_seed(0)
    x = torch.randn(4096).bfloat16()
    drift = compare(lambda x: x * x * x, x, a="eager", b="cpu")
    first, second = drift.measured.nodes
    assert first.b.rms == 0 and 0.001 < first.a.rms < 2**-8, "a product of two bfloat16 is exact in float32"
    # Two independent roundings against one: sqrt(2) of the error, within what 4096 samples show.
    assert 1.3 < second.a.rms / second.b.rms < 1.5


def test_two_equal_policies_part_nowhere() -> None:
    x = torch.randn(32, 8).bfloat16()
    drift = compare(chain, x, a="eager", b=EAGER.with_settings(name="again"))
    assert drift.measured.first_parting is None
    assert "A and B have the same bits everywhere" in drift.render()


def test_flips_of_a_largest_element_are_counted_exactly() -> None:
    # x * 3: 1.0078125 * 3 = 3.0234375 is rounded to 3.03125 or, with more bits, stays behind 3.03: of the 4 rows only
    # the two in which 3.03125 decides between a tie and an order flip.
    near, other = 129 / 128, 194 / 64  # other = 3.03125
    rows = torch.tensor([[near, other / 3], [near, 9.0], [near, other / 3], [9.0, near]], dtype=torch.float32)

    def largest(x: torch.Tensor) -> torch.Tensor:
        return torch.argmax(x.bfloat16().mul(3).float() - torch.tensor([0.0, 0.004]), 1)

    drift = compare(largest, rows, a=EAGER, b=EAGER.with_rule(op="aten.mul.*", compute="float8_e4m3fn"))
    (decision,) = [d for d in drift.measured.decisions if d.op.startswith("aten.argmax")]
    want = {}
    for run_, narrow in (("a", None), ("b", torch.float8_e4m3fn)):
        product = rows.bfloat16()
        product = product.mul(3) if narrow is None else (product.to(narrow).float() * 3).to(narrow).bfloat16()
        want[run_] = (product.float() - torch.tensor([0.0, 0.004])).argmax(1)
    exact = (rows.double() * 3 - torch.tensor([0.0, 0.004]).double()).argmax(1)
    assert decision.elements == 4
    assert decision.between == (want["a"] != want["b"]).double().mean()
    assert decision.a == (want["a"] != exact).double().mean()


def test_routing_flips_by_the_experts_that_are_chosen() -> None:
    logits = torch.tensor([[1.0, 1.001, 0.0, 3.0], [4.0, 1.0, 2.0, 0.0]])

    def route(x: torch.Tensor) -> torch.Tensor:
        return torch.topk(x + 0.0, 2, dim=-1).indices

    coarse = EAGER.with_rule(op="aten.add.*", compute="bfloat16")
    (decision,) = compare(route, logits, a=EAGER, b=coarse).measured.decisions
    # bfloat16 makes 1.001 equal to 1.0: the first of equals is chosen, so one of four choices is another expert.
    assert (decision.op, decision.elements, decision.between) == ("aten.topk.default", 4, 0.25)
    assert (decision.a, decision.b) == (0.0, 0.25)


def test_the_random_bits_are_the_same_in_every_run() -> None:
    x = torch.randn(256).bfloat16()

    def noisy(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.rand_like(x),
            torch.randn(16),
            torch.nn.functional.dropout(x, 0.5),
            torch.native_dropout(x, 0.5, True)[0],
        )

    drift = compare(noisy, x, a="eager", b="torch_xla-2.9")
    assert drift.measured.first_parting is None
    assert drift.measured.not_computed == ()
    exact = [n for n in drift.measured.nodes if n.op != "aten.native_dropout.default"]
    assert all(n.a.rms == 0 and n.a.strays == 0 for n in exact)


def test_the_reference_scales_a_dropped_out_value_in_float64() -> None:
    def dropped(x: torch.Tensor) -> torch.Tensor:
        return torch.native_dropout(x, 0.7, True)[0]

    for x, unit in ((torch.randn(512).bfloat16(), 2.0**-8), (torch.randn(512), 2.0**-24)):
        (node,) = compare(dropped, x, a="eager", b="cpu").measured.nodes
        assert unit / 16 < node.a.rms < 2 * unit


@pytest.mark.parametrize(
    ("program", "op", "why"),
    [
        (lambda x: (x * 2).view(torch.int16) + 1, "aten.view.dtype", "it reads the bits of its operand"),
        (
            lambda x: torch.nextafter(x * 2, x),
            "aten.nextafter.default",
            "it is about the numbers that its operands' own dtype has",
        ),
        (
            lambda x: torch.bernoulli(torch.sigmoid(x)),
            "aten.bernoulli.default",
            "what it draws depends on its operands as the program holds them",
        ),
    ],
)
def test_what_float64_cant_stand_for_is_told_by_node(program: Callable[..., Any], op: str, why: str) -> None:
    drift = compare(program, torch.randn(16).bfloat16() if op != "aten.nextafter.default" else torch.randn(16))
    (missed,) = drift.measured.not_computed
    assert (missed.op, missed.why) == (op, why)
    assert f"  not in float64: {missed.name} = {op}, test_compare.py:" in drift.render()


def test_a_rule_that_cant_compute_in_float64_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from truecast.lowering import emit
    from truecast.lowering.registry import rule_for

    def refusing(node: Any) -> Any:
        rule = rule_for(node)
        if node.op != "aten.tanh.default":
            return rule

        def narrow_only(context: Any, **arguments: Any) -> Any:
            if (
                arguments["self"].dtype == "float64"
                and context.decision.accumulate is None
                and context.dtype == "float64"
            ):
                raise TypeError("no float64 here")
            return rule(context, **arguments)

        return narrow_only

    monkeypatch.setattr(emit, "rule_for", refusing)
    drift = compare(chain, torch.randn(32, 4).bfloat16(), a="eager", b="cpu")
    (missed,) = drift.measured.not_computed
    assert (missed.op, missed.why) == ("aten.tanh.default", "no float64 here")
    assert 0 < by_op(drift)["aten.sum.dim_IntList"].a.rms < 2**-7


def test_the_reference_may_be_a_policy() -> None:
    x = torch.randn(32, 4).bfloat16()
    drift = compare(chain, x, a="eager", b="torch_xla-2.9", reference="eager")
    assert drift.measured.reference == "eager"
    assert all(node.a.rms == 0 for node in drift.measured.nodes)
    assert any(node.b.rms > 0 for node in drift.measured.nodes)


def test_how_a_compilers_rounding_is_computed_is_said() -> None:
    x = torch.randn(32, 4).bfloat16()
    drift = compare(chain, x, a="eager", b="torch_xla-2.9")
    assert drift.measured.notes == (
        "the rounding that torch_xla-2.9 leaves to a compiler is done where an elementwise region ends (law N3)",
        "A and B decide 4 of 4 nodes differently",
    )
    assert compare(chain, x, a="eager", b="cuda").measured.notes == ()
    note, held, _ = compare(chain, x, a="eager", b="neuron", compiler_rounding="op").measured.notes
    assert note == "the rounding that neuron leaves to a compiler is done after each operation"
    assert held == "under neuron: float64 held as float32 (law N11)"


def test_a_mismatch_is_an_error_unless_a_policy_casts() -> None:
    weight, x = torch.randn(4, 4).bfloat16(), torch.randn(4, 4)
    with pytest.raises(RuntimeError, match="same dtype"):
        compare(torch.mm, x, weight)
    casting = EAGER.with_settings(on_mismatch="cast")
    with pytest.raises(ContractError):
        compare(torch.mm, x, weight, a=casting, b="cpu")
    drift = compare(torch.mm, x, weight, a=casting, b=casting)
    assert by_op(drift)["aten.mm.default"].a.rms > 0


class Regression:
    """A model, an optimizer, and one step of them."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Linear(8, 1).bfloat16()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, fused=True)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = (self.model(x) - 1).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss


def test_steps_follow_eager_training() -> None:
    subject = Regression()
    x = torch.randn(32, 8).bfloat16()
    drift = compare(subject.step, x, a="eager", b="torch_xla-2.9", steps=4)
    training = drift.measured.training
    assert training is not None
    wide = Regression()
    wide.model.double().load_state_dict({k: v.double() for k, v in subject.model.state_dict().items()})
    for step in training.steps:
        assert step.loss_a == subject.step(x).item()
        assert step.loss_reference == pytest.approx(wide.step(x.double()).item(), rel=1e-12)
        assert step.loss_honest is not None and step.loss_b is not None
    for found, (name, parameter) in zip(training.parameters, wide.model.named_parameters(), strict=True):
        trained = dict(subject.model.named_parameters())[name].detach().double()
        assert found.path == name
        assert found.a == pytest.approx(((trained - parameter).norm() / parameter.norm()).item(), rel=1e-9)
    assert "loss A" in drift.render()


def test_the_program_is_left_as_it_was() -> None:
    subject = Regression()
    before = {name: p.clone() for name, p in subject.model.named_parameters()}
    compare(subject.step, torch.randn(4, 8).bfloat16(), steps=2)
    assert all(torch.equal(before[name], p) for name, p in subject.model.named_parameters())


def negative(x: torch.Tensor) -> torch.Tensor:
    return -x


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: compare(negative, torch.ones(2), steps=3), "negative writes nothing that a next step would read"),
        (lambda: compare(negative, torch.arange(3)), "negative has no floating arithmetic to compare"),
        (lambda: compare(negative, torch.ones(2), steps=-1), "-1 steps can't be taken"),
        (lambda: compare(negative, torch.ones(2), compiler_rounding="never"), "unknown rounding 'never'"),  # type: ignore[arg-type]
        (lambda: compare(negative, torch.ones(2), b="neuro"), "unknown preset 'neuro'"),
    ],
)
def test_wrong_use(call: Callable[[], Any], what: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.what == what


SCRIPT = """\
import torch
torch.manual_seed(0)
example_inputs = (torch.randn(64, 8).bfloat16(),)

def total(x):
    return torch.exp(x).sum(0)

def crash(x):
    raise ValueError("no")
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(SCRIPT)
    return str(tmp_path / "net.py")


def test_the_command_prints_and_writes(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, numbers, picture = tmp_path / "d.html", tmp_path / "d.json", tmp_path / "d.png"
    arguments = [
        "--a",
        "eager",
        "--b",
        "torch_xla-2.9",
        "--html",
        str(page),
        "--json",
        str(numbers),
        "--png",
        str(picture),
    ]
    assert run(["compare", f"{script}:total", *arguments]) == 0
    assert capsys.readouterr().out.startswith("total: A = eager, B = torch_xla-2.9, against float64 (2 values)\n")
    assert json.loads(numbers.read_text())["b"] == "torch_xla-2.9"
    assert "<svg" in page.read_text() and picture.read_bytes()[:4] == b"\x89PNG"


def test_the_command_fails_where_a_bound_is_broken(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", f"{script}:total", "--a", "eager", "--b", "torch_xla-2.9", "--by", "op"]
    assert run([*arguments, "--max-result-ratio", "1.1"]) == 1
    assert "times the honest one; at most 1.1 may be\n  --> net.py:6" in capsys.readouterr().out
    assert run([*arguments, "--max-result-ratio", "1000"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["total", "--by", "step"], "there are no training steps to print; help: say how many to take: --steps 10"),
        (["total", "--steps", "-2"], "-2 steps can't be taken"),
        (["crash"], "values: ValueError: no"),
    ],
)
def test_the_command_says_what_is_wrong(
    script: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", f"{script}:{arguments[0]}", *arguments[1:]]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1

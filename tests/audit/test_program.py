"""The audit of truecast's own programs: every convert leads to a node, a line, and who asked for it."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Callable

import pytest
import torch

import truecast as tc
from truecast.diagnose.audit.result import Row
from truecast.lowering.program import Program
from truecast.report.audit import AuditReport

PRESETS = ("eager", "cpu", "cuda", "tpu", "neuron", "torch_xla-2.9", "torch_xla-2.10", "legacy-xla-bf16")


class RMSNorm(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Layer(torch.nn.Module):
    """A decoder layer as Llama has it, in bfloat16."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm = RMSNorm(width)
        self.query, self.key, self.value = (torch.nn.Linear(width, width, bias=False) for _ in range(3))
        self.gate, self.up = (torch.nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        query, key = (self.rotate(part(y), cosine, sine) for part in (self.query, self.key))
        x = x + torch.softmax(query @ key.transpose(-1, -2), -1) @ self.value(y)
        y = self.norm(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))

    @staticmethod
    def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        return x * cosine + x.flip(-1) * sine


@pytest.fixture(scope="module")
def layer() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Layer().bfloat16(), tuple(torch.randn(4, 16).bfloat16() for _ in range(3))


def converts(program: Program) -> Counter[tuple[str, str]]:
    """(from, to) of each convert, read another way."""
    pattern = r"stablehlo\.convert %\S+ : \(tensor<(?:\d+x)*(\w+)>\) -> tensor<(?:\d+x)*(\w+)>"
    return Counter(re.findall(pattern, program.stablehlo))


SHORT = {"float32": "f32", "bfloat16": "bf16", "float64": "f64", "float16": "f16", "int64": "i64", "int32": "i32"}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_convert_leads_to_a_node_a_line_and_a_reason(
    layer: tuple[torch.nn.Module, tuple[torch.Tensor, ...]], preset: str
) -> None:
    model, arguments = layer
    program = tc.lower(model, *arguments, numerics=preset)
    report = tc.audit(program)
    rows = report.audit.of("convert")
    counted: Counter[tuple[str, str]] = Counter()
    for row in rows:
        counted[SHORT[row.source], SHORT[row.result]] += row.count
        assert row.nodes and row.line and row.file.endswith("test_program.py")
        assert row.asked in ("program", "plan"), row
        assert (row.asked == "plan") == bool(row.rule) or preset == "legacy-xla-bf16", row
    assert counted == converts(program)
    assert report.counts()["converts.nobody"] == 0
    assert report.problems == ()


def test_mul_loses_its_three_converts_on_each_line(layer: tuple[torch.nn.Module, tuple[torch.Tensor, ...]]) -> None:
    """torch_xla 2.10 took the opmath of mul away: each bfloat16 product of two tensors had three converts."""
    model, arguments = layer
    before, after = (tc.audit(tc.lower(model, *arguments, numerics=f"torch_xla-{v}")) for v in ("2.9", "2.10"))
    changes = before.diff(after).changes
    assert {(change.op, change.kind) for change in changes} == {("aten.mul.Tensor", "convert")}
    # weight * normed, in both norms; x * cosine and x.flip * sine, in query and key; silu(gate) * up.
    assert [(c.before, c.after, c.nodes) for c in changes] == [(6, 0, 2), (3, 0, 1), (12, 0, 4)]
    assert "aten.mul.Tensor: converts 12 -> 0 (3 -> 0 in each of 4 nodes)" in before.diff(after).render()
    assert {event.rules for change in changes for event in change.events} == {("aten.mul.Tensor", "")}
    assert [c.line for c in changes] == sorted(c.line for c in changes)
    assert before.counts()["accumulations.16bit"] == after.counts()["accumulations.16bit"] > 0


def test_mul_loses_its_three_converts_in_transformers_llama() -> None:
    from tests.models.zoo import ZOO

    torch.manual_seed(0)
    model, _ = ZOO["llama"]()
    model = model.bfloat16()
    graph = tc.capture(lambda ids: model(input_ids=ids).logits, torch.zeros(1, 6, dtype=torch.long))
    before, after = (tc.audit(tc.lower(graph, numerics=f"torch_xla-{v}")) for v in ("2.9", "2.10"))
    changes = before.diff(after).changes
    assert {(c.op, c.kind, c.before // c.nodes, c.after) for c in changes} == {("aten.mul.Tensor", "convert", 3, 0)}
    texts = [linecache.getline(c.file, c.line).strip() for c in changes]
    assert texts == [  # norm weight, rotary embedding of query and key, gate
        "return self.weight * hidden_states.to(input_dtype)",
        "q_embed = (q * cos) + (rotate_half(q) * sin)",
        "k_embed = (k * cos) + (rotate_half(k) * sin)",
        "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))",
    ]
    assert [c.nodes for c in changes] == [5, 4, 4, 2]
    assert before.counts()["converts.nobody"] == after.counts()["converts.nobody"] == 0


def audited(function: Callable[..., object], *arguments: object, numerics: str = "cpu", **kwargs: bool) -> AuditReport:
    return tc.audit(tc.lower(function, *arguments, numerics=numerics), **kwargs)


def asked(report: AuditReport) -> list[tuple[str, str, str, str]]:
    return [(row.op, row.event, row.asked, row.why) for row in report.audit.of("convert")]


X = torch.randn(8, 8).bfloat16()
INDEX = torch.tensor([0, 2, 1, 2, 0, 1, 2, 2])


@pytest.mark.parametrize(
    ("function", "arguments", "numerics", "reasons"),
    [
        (
            lambda x: x.float(),
            (X,),
            "cpu",
            [("aten._to_copy.default", "bfloat16 -> float32", "program", "a cast")],
        ),
        (
            lambda x, y: torch.cat([x, y]),
            (X, X.float()),
            "cpu",
            [("aten.cat.default", "bfloat16 -> float32", "program", "promotion to float32 (law N1)")],
        ),
        (
            lambda x: x @ x,
            (X,),
            "cpu",
            [("aten.mm.default", "float32 -> bfloat16", "plan", "accumulate = float32")],
        ),
        (
            lambda x: x @ x,
            (X.float(),),
            "tpu",
            [("aten.mm.default", "float32 -> bfloat16", "plan", "algorithm = bf16_bf16_f32")],
        ),
        (
            lambda x: x.exp(),
            (X,),
            "eager",
            [
                ("aten.exp.default", "bfloat16 -> float32", "plan", "compute = float32"),
                ("aten.exp.default", "float32 -> bfloat16", "plan", "compute = float32"),
            ],
        ),
        (
            lambda i, x: torch.nn.functional.embedding(i, x),
            (INDEX, X),
            "cpu",
            [("aten.embedding.default", "int64 -> int32", "lowering", "an index, a condition or a counter")],
        ),
    ],
)
def test_who_asked(
    function: Callable[..., object], arguments: tuple[object, ...], numerics: str, reasons: list[tuple[str, ...]]
) -> None:
    found = asked(audited(function, *arguments, numerics=numerics))
    assert set(found) == set(reasons)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x: x.sum(-1), (X,)),
        (lambda x: torch.softmax(x, -1), (X,)),
        (lambda x: x.cumsum(0), (X,)),
        (lambda x, i: torch.zeros(3, 8).bfloat16().index_add(0, i, x), (X, INDEX)),
        (lambda x: torch.nn.functional.layer_norm(x, (8,)), (X,)),
        (lambda x: x @ x, (X,)),
        (lambda x: torch.nn.functional.conv2d(x[None, None], x[None, None, :3, :3]), (X,)),
        (lambda x: torch.nn.functional.avg_pool2d(x[None], 2), (X,)),
    ],
    ids=["sum", "softmax", "cumsum", "index_add", "layer_norm", "mm", "conv2d", "avg_pool2d"],
)
def test_sums_in_16_bits_and_the_rule_for_them(
    function: Callable[..., object], arguments: tuple[torch.Tensor, ...]
) -> None:
    """torch_xla accumulates in the operand's type; truecast's own default in float32."""
    narrow = audited(function, *arguments, numerics="torch_xla-2.9").audit.of("accumulation")
    assert narrow and all(row.accumulate == "bfloat16" and "accumulate = same" in row.why for row in narrow)
    assert all(row.rule and row.nodes and row.line for row in narrow)
    assert audited(function, *arguments, numerics="cpu").audit.of("accumulation") == ()


def test_float64_leads_to_its_line() -> None:
    report = audited(lambda x: x.double().exp().float(), X)
    assert {row.op for row in report.audit.of("float64")} == {"aten._to_copy.default", "aten.exp.default"}
    assert audited(lambda x: x.exp(), X).counts()["float64"] == 0


def test_a_convert_that_nobody_asked_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lowering rule that casts on its own, which law N2 forbids."""
    from jax import lax

    from truecast.lowering import registry

    rule = registry.rule_for

    def casting(node: object) -> Callable[..., object]:
        return lambda ctx, self: lax.convert_element_type(lax.convert_element_type(lax.exp(self), "float16"), "float32")

    monkeypatch.setattr(
        "truecast.lowering.emit.rule_for", lambda node: casting(node) if "exp" in node.op else rule(node)
    )
    report = audited(lambda x: x.exp(), X.float())
    assert asked(report) == [
        ("aten.exp.default", "float16 -> float32", "nobody", "neither the program nor the Plan says so"),
        ("aten.exp.default", "float32 -> float16", "nobody", "neither the program nor the Plan says so"),
    ]


def removed(report: AuditReport) -> list[tuple[str, str, str]]:
    return [(row.op, row.event, row.why) for row in report.audit.of("removed")]


def rounded_twice(x: torch.Tensor) -> torch.Tensor:
    return (x @ x).float().sum()


def test_casts_that_the_compiler_removed() -> None:
    """Under rounding = "compiler" XLA keeps a product in float32 past a bfloat16 result that is cast back up."""
    lost = audited(rounded_twice, X, numerics="torch_xla-2.9", optimized=True)
    why = "aten.mm.default no longer rounds its result to bfloat16"
    assert removed(lost) == [("aten._to_copy.default", "bfloat16 -> float32", why)]
    assert lost.counts()["casts.removed"] == 1
    assert lost.audit.title == "rounded_twice under torch_xla-2.9, optimized"
    kept = audited(rounded_twice, X, numerics="cpu", optimized=True)
    assert removed(kept) == []


def test_the_compilers_own_converts(layer: tuple[torch.nn.Module, tuple[torch.Tensor, ...]]) -> None:
    """XLA:CPU computes bfloat16 in float32; what it puts in, nobody asked for, also where it leads to a node."""
    model, arguments = layer
    report = tc.audit(tc.lower(model, *arguments, numerics="torch_xla-2.10"), optimized=True)
    assert report.audit.language == "HLO"
    rows: tuple[Row, ...] = report.audit.of("convert")
    own = {row.op for row in rows if row.asked == "nobody" and row.nodes}
    assert own and "aten._to_copy.default" not in own
    assert {row.why for row in rows if row.asked == "nobody"} == {
        "the compiler put it in",
        "no node of the program computes it",
    }
    assert {row.op for row in rows if row.asked == "program"} == {"aten._to_copy.default"}

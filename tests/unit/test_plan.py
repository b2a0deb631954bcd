"""Resolving a Graph under a policy: which rule decides what, what is reported, how it reads, how two differ."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truecast import dtypes
from truecast.errors import TargetError, UsageError
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.numerics.matching import covers
from truecast.numerics.numerics import Numerics, Rule
from truecast.numerics.plan import Decision, resolve
from truecast.numerics.policy_text import preset_names
from truecast.sites import Site

BF16, F32 = dtypes.bfloat16, dtypes.float32
EMPTY = Numerics("empty")


LINE = Site("/src/model.py", 3)


def one(op: str, *operands: object, result: dtypes.DType = BF16, site: Site = LINE) -> Graph:
    """A Graph of one node; an operand that is a dtype stands for a tensor of it."""
    values = [Value(f"a{i}", o, (4, 4)) if isinstance(o, dtypes.DType) else o for i, o in enumerate(operands)]
    out = Value("out", result, (4, 4))
    inputs = tuple(Input(v) for v in values if isinstance(v, Value))
    return Graph("one", inputs, (Node(op, tuple(values), (), (out,), site),), (Output(out),)).verify()


def decide(policy: Numerics, op: str, *operands: object, **of: object) -> Decision:
    return resolve(one(op, *operands, **of), policy).decisions[0]  # type: ignore[arg-type]


MUL = ("aten.mul.Tensor", BF16, BF16)
MM = ("aten.mm.default", BF16, BF16)


@pytest.mark.parametrize(
    ("operands", "compute", "accumulate"),
    (
        (MUL, "float32", "None"),
        (("aten.mul.Tensor", dtypes.float16, dtypes.float16), "float32", "None"),
        (("aten.mul.Tensor", BF16, F32), "float32", "None"),
        (("aten.mul.Tensor", F32, F32), "float32", "None"),
        (("aten.mul.Tensor", dtypes.float64, 2.0), "float64", "None"),
        (("aten.mul.Tensor", dtypes.int64, dtypes.int32), "int64", "None"),
        (("aten.mul.Tensor", dtypes.complex64, BF16), "complex64", "None"),
        (MM, "bfloat16", "float32"),
        (("aten.mm.default", dtypes.float64, dtypes.float64), "float64", "float64"),
        (("aten.mm.default", dtypes.int32, dtypes.int32), "int32", "int32"),
        (("aten.cumsum.default", BF16, 0), "float32", "float32"),
        (("aten.flip.default", BF16, (0,)), "None", "None"),
    ),
)
def test_without_rules_arithmetic_is_opmath_and_contractions_only_accumulate_wider(
    operands: tuple[object, ...], compute: str, accumulate: str
) -> None:
    op, *rest = operands
    decision = decide(EMPTY, str(op), *rest)
    assert (str(decision.compute), str(decision.accumulate)) == (compute, accumulate)
    assert (decision.rounding, decision.algorithm, decision.rule) == ("op", "", None)


def test_first_match_wins_setting_by_setting() -> None:
    policy = (
        EMPTY.with_rule(rounding="region", compute="float64")
        .with_rule(kind="elementwise", compute="same")
        .with_rule(op="aten.mul.*", rounding="compiler")
    )
    decision = decide(policy, *MUL)
    assert (decision.compute, decision.rounding) == (BF16, "compiler")
    assert dict(decision.decided_by) == {"compute": policy.rules[1], "rounding": policy.rules[0]}
    assert decision.rule == policy.rules[1]
    assert decide(policy, "aten.cumsum.default", BF16, 0).compute is dtypes.float64


SITE = Site("/home/me/train.py", 12, module="model.layers.3.mlp")


@pytest.mark.parametrize(
    ("keys", "matches"),
    (
        ({"op": "aten.mul.*"}, True),
        ({"op": "aten.mul"}, False),
        ({"op": "aten.add.*|aten.mul.*"}, True),
        ({"op": "*.Tensor"}, True),
        ({"kind": "elementwise"}, True),
        ({"kind": "reduction|scan"}, False),
        ({"dtype": "bfloat16"}, True),
        ({"dtype": "float32|bfloat16"}, True),
        ({"dtype": "narrow"}, True),
        ({"dtype": "floating"}, True),
        ({"dtype": "complex|integral|bool"}, False),
        ({"target": "cpu"}, True),
        ({"target": "tpu"}, False),
        ({"module": "model.layers.*.mlp"}, True),
        ({"module": "model.layers.3"}, False),
        ({"source": "train.py"}, True),
        ({"source": "train.py:12"}, True),
        ({"source": "train.py:1"}, False),
        ({"source": "*.py:1?"}, True),
        ({"source": "/home/me/train.py"}, False),
        ({"op": "aten.mul.*", "dtype": "narrow", "source": "train.py", "module": "*mlp"}, True),
        ({"op": "aten.mul.*", "dtype": "float32", "source": "train.py"}, False),
    ),
)
def test_every_key_must_match(keys: dict[str, str], matches: bool) -> None:
    decision = decide(EMPTY.with_rule(**keys, compute="same"), *MUL, site=SITE)
    assert (decision.compute is BF16) == matches


def test_nodes_that_only_differ_in_their_site_are_told_apart_by_rules_that_ask() -> None:
    a = Value("a", BF16, (2,))
    nodes, previous = [], a
    for line in range(1, 9):
        result = Value(f"v{line}", BF16, (2,))
        site = Site("m.py", line, module=f"layers.{line % 2}")
        nodes.append(Node("aten.exp.default", (previous,), (), (result,), site))
        previous = result
    graph = Graph("g", (Input(a),), tuple(nodes), (Output(previous),)).verify()
    policy = EMPTY.with_rule(module="layers.0", compute="same").with_rule(source="m.py:[13]", compute="float64")
    found = [str(d.compute) for d in resolve(graph, policy).decisions]
    assert found == ["float64", "bfloat16", "float64", "bfloat16", "float32", "bfloat16", "float32", "bfloat16"]


@pytest.mark.parametrize(
    ("dtype", "algorithm", "expected"),
    (
        (F32, "bf16_bf16_f32_x3", "bf16_bf16_f32_x3"),
        (BF16, "bf16_bf16_f32_x3", ""),
        (BF16, "bf16_bf16_f32", "bf16_bf16_f32"),
        (dtypes.float64, "f32_f32_f32", ""),
        (dtypes.int32, "bf16_bf16_f32", ""),
    ),
)
def test_an_algorithm_is_about_the_operands_it_names(dtype: dtypes.DType, algorithm: str, expected: str) -> None:
    policy = EMPTY.with_rule(algorithm=algorithm)
    assert decide(policy, "aten.mm.default", dtype, dtype, result=dtype).algorithm == expected
    assert decide(policy, "aten.exp.default", dtype, result=dtype).algorithm == ""


def test_n5_what_a_target_cannot_do_raises_when_it_is_asked_to_and_not_before() -> None:
    policy = EMPTY.with_rule(algorithm="tf32_tf32_f32").with_settings(target="tpu")
    with pytest.raises(TargetError, match="target 'tpu' can't do algorithm 'tf32_tf32_f32'"):
        decide(policy, "aten.mm.default", F32, F32, result=F32)
    assert decide(policy, "aten.exp.default", F32, result=F32).algorithm == ""
    assert decide(policy.with_settings(target="cuda"), "aten.mm.default", F32, F32, result=F32).algorithm


def test_why_names_the_rule_its_line_and_its_reason() -> None:
    policy = Numerics.from_toml(
        'name = "p"\n\n[[rule]]\nop = "aten.mul.*"\ncompute = "same"\nnote = "because"\n', "dir/p.toml"
    )
    assert decide(policy, *MUL).why == (
        "compute = same (bfloat16) by the rule for aten.mul.* (p.toml:3): because; rounding = op by default"
    )
    assert (
        decide(policy, *MM).why == "compute = same (bfloat16), accumulate = opmath (float32), rounding = op by default"
    )
    assert decide(policy, "aten.flip.default", BF16, (0,)).why == "no arithmetic"
    assert decide(policy, "mine.unknown.default", BF16).why == (
        "the operations table has no row for it, so nothing is decided about it"
    )


def test_unused_rules_and_conflicts_are_reported_with_their_lines() -> None:
    policy = Numerics.from_toml(
        """name = "p"
[[rule]]
op = "aten.*"
compute = "same"
[[rule]]
op = "aten.mul.*"
compute = "float32"
rounding = "region"
[[rule]]
op = "aten.nothing.*"
compute = "float32"
[[rule]]
op = "*.mul.Tensor"
rounding = "compiler"
""",
        "p.toml",
    )
    plan = resolve(one(*MUL), policy)
    assert [rule.line for rule in plan.unused] == [9, 12]
    found = [(c.rule.line, c.setting, c.by.line, c.nodes, c.certain) for c in plan.conflicts]
    assert found == [(5, "compute", 2, 1, True), (12, "rounding", 5, 1, False)]
    text = plan.text(250)
    assert "  unused     aten.nothing.*: compute = float32  (p.toml:9): decides nothing here\n" in text
    assert (
        "  conflict   aten.mul.*: compute = float32, rounding = region  (p.toml:5): "
        "never decides compute in any graph, since aten.*: compute = same  (p.toml:2) comes first (1 node)\n"
    ) in text
    assert "never decides rounding in this graph, since" in text
    assert resolve(one(*MUL), EMPTY.with_rule(compute="same")).conflicts == ()


def test_a_rule_that_decides_somewhere_is_in_no_conflict() -> None:
    policy = EMPTY.with_rule(compute="same").with_rule(op="aten.mul.*", compute="float64")
    plan = resolve(block(1), policy)
    assert (plan.unused, plan.conflicts) == ((), ())
    (late,) = resolve(one(*MUL), policy).conflicts
    assert (late.rule, late.by, late.nodes, late.certain) == (policy.rules[1], policy.rules[0], 1, False)


def test_a_presets_own_idle_rules_are_only_counted() -> None:
    text = resolve(one(*MUL), Numerics.preset("tpu")).text(200)
    assert "  rules      4 of the preset's 5 decide nothing here\n" in text
    assert "unused" not in text and "conflict" not in text


GENERAL = st.sampled_from(("", "aten.*", "aten.mul.*", "aten.mul.Tensor", "*.Tensor", "aten.m?l.*", "aten.[am]*"))


@given(GENERAL, GENERAL, st.sampled_from(("aten.mul.Tensor", "aten.add.Tensor", "aten.mul.Scalar", "aten.exp.default")))
@settings(max_examples=200, deadline=None)
def test_covering_is_never_claimed_wrongly(general: str, special: str, op: str) -> None:
    one_, other = Rule(op=general, compute="same"), Rule(op=special, compute="same")
    if covers(one_, other) and _matches(special, op):
        assert _matches(general, op)


def _matches(glob: str, op: str) -> bool:
    operands = (BF16,) if op == "aten.exp.default" else (BF16, 2.0)
    policy = EMPTY.with_rule(op=glob, compute="float64")
    return decide(policy, op, *operands).compute is dtypes.float64


@pytest.mark.parametrize(
    ("general", "special", "expected"),
    (
        ({}, {"op": "aten.mul.*"}, True),
        ({"op": "aten.mul.*"}, {}, False),
        ({"dtype": "narrow"}, {"dtype": "bfloat16|float16"}, True),
        ({"dtype": "bfloat16"}, {"dtype": "narrow"}, False),
        ({"kind": "scan|reduction"}, {"kind": "reduction"}, True),
        ({"target": "cpu"}, {"target": "tpu"}, False),
        ({"op": "aten.m?l.*"}, {"op": "aten.m*l.*"}, False),
        ({"module": "a.*"}, {"module": "a.b.*", "op": "aten.mul.*"}, True),
        ({"op": "aten.mul.*|aten.add.*"}, {"op": "aten.add.Tensor"}, True),
        ({"op": "aten.mul.*"}, {"op": "aten.add.Tensor|aten.mul.Tensor"}, False),
    ),
)
def test_covering(general: dict[str, str], special: dict[str, str], expected: bool) -> None:
    assert covers(Rule(**general, compute="same"), Rule(**special, compute="same")) is expected  # type: ignore[arg-type]


def block(layers: int = 2) -> Graph:
    """Layers of y = x * scale; h = y @ w; x = x + gelu(h), then a sum: what a person would ask a plan about."""
    x, scale = Value("x", BF16, (8, 16)), Value("scale", BF16, (16,))
    inputs, nodes = [Input(x), Input(scale, "parameter", "scale")], []
    for i in range(layers):
        w = Value(f"w{i}", BF16, (16, 16))
        inputs.append(Input(w, "parameter", f"layers.{i}.weight"))
        y, h, g, r = (Value(f"{name}{i}", BF16, (8, 16)) for name in "yhgr")
        path = f"layers.{i}"
        nodes += [
            Node("aten.mul.Tensor", (x, scale), (), (y,), Site("/src/model.py", 10, 13, 10, 22, "forward", path)),
            Node("aten.mm.default", (y, w), (), (h,), Site("/src/model.py", 11, 13, 11, 23, "forward", path)),
            Node("aten.gelu.default", (h,), (), (g,), Site("/src/model.py", 12, 20, 12, 27, "forward", path)),
            Node("aten.add.Tensor", (x, g), (), (r,), Site("/src/model.py", 12, 16, 12, 28, "forward", path)),
        ]
        x = r
    flat, total = Value("flat", BF16, (128,)), Value("total", F32, ())
    nodes += [
        Node("aten.view.default", (x, (128,)), (), (flat,), Site("/src/model.py", 20)),
        Node("aten.sum.default", (flat,), (("dtype", F32),), (total,), Site("/src/model.py", 20)),
    ]
    return Graph("block", tuple(inputs), tuple(nodes), (Output(total),)).verify()


@pytest.mark.parametrize("name", ("cpu", "neuron", "tpu", "legacy-xla-bf16"))
def test_it_reads_as_the_golden_file_says(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"block.{name}.plan", resolve(block(), Numerics.preset(name)).text(120))


def test_it_fits_a_narrow_terminal(golden: Callable[[str, str], None]) -> None:
    text = resolve(block(), Numerics.preset("neuron")).text(72)
    golden("block.narrow.plan", text)
    assert max(map(len, text.splitlines())) <= 72


@pytest.mark.parametrize("name", preset_names())
def test_every_presets_plan_fits_what_it_is_given(name: str) -> None:
    plan = resolve(block(), Numerics.preset(name))
    for width in (60, 80, 120):
        assert max(map(len, plan.text(width).splitlines())) <= width


def test_a_difference_is_grouped_by_source_line(golden: Callable[[str, str], None]) -> None:
    graph = block()
    neuron, tpu = (resolve(graph, Numerics.preset(name)) for name in ("neuron", "tpu"))
    difference = neuron.diff(tpu)
    assert [(site.line, [d.node.name for d in found]) for site, found in difference.by_line()] == [
        (10, ["y0", "y1"]),
    ]
    assert difference.differences[0].fields == ("compute",)
    golden("block.neuron-tpu.diff", difference.text(120))


def test_another_name_for_the_same_products_is_no_difference() -> None:
    graph = one(*MM)
    named = EMPTY.with_rule(algorithm="bf16_bf16_f32")
    assert not resolve(graph, EMPTY).diff(resolve(graph, named))
    (found,) = resolve(graph, EMPTY.with_rule(accumulate="same")).diff(resolve(graph, named)).differences
    assert found.fields == ("accumulate", "algorithm")


def test_plans_under_one_policy_do_not_differ() -> None:
    graph = block()
    same = resolve(graph, Numerics.preset("cpu")).diff(resolve(graph, Numerics.preset("cpu")))
    assert not same and same.differences == ()
    assert str(same).splitlines()[0] == "cpu -> cpu: 0 of 10 nodes differ in 'block'"


def test_a_rounding_that_rounds_nothing_is_no_difference() -> None:
    graph = one("aten.mul.Tensor", F32, F32, result=F32)
    assert not resolve(graph, EMPTY).diff(resolve(graph, EMPTY.with_rule(rounding="compiler")))
    graph = one(*MUL)
    assert resolve(graph, EMPTY).diff(resolve(graph, EMPTY.with_rule(rounding="compiler")))


def test_plans_of_different_graphs_have_no_difference() -> None:
    with pytest.raises(UsageError) as error:
        resolve(block(1), EMPTY).diff(resolve(block(2), EMPTY))
    assert str(error.value) == (
        "the two Plans are of different Graphs\n"
        "  values: <Graph 'block': 3 inputs, 6 nodes, 1 outputs> and <Graph 'block': 4 inputs, 10 nodes, 1 outputs>\n"
        "  help: resolve both policies on one Graph"
    )


def test_a_plan_leaves_its_graph_alone() -> None:
    graph = block()
    before = str(graph)
    assert resolve(graph, Numerics.preset("legacy-xla-bf16")).graph is graph
    assert str(graph) == before


def test_many_nodes_take_little_time() -> None:
    """100,000 nodes resolve in a few seconds; a fifth of them, here, in well under two, also under rules that look at
    modules and lines. Were one node to cost 100 us, this would take two seconds."""
    a, b = Value("a", BF16, (4,)), Value("b", BF16, (4,))
    nodes, previous = [], a
    for index in range(20_000):
        result = Value(f"v{index}", BF16, (4,))
        site = Site("/src/model.py", index % 500, module=f"layers.{index % 80}")
        nodes.append(Node("aten.mul.Tensor", (previous, b), (), (result,), site))
        previous = result
    graph = Graph("many", (Input(a), Input(b)), tuple(nodes), (Output(previous),))
    asking = Numerics.preset("cpu").with_rule(op="aten.mul.*", compute="same", source="model.py:1*", module="*.1*")
    for policy in (Numerics.preset("cpu"), asking):
        start = time.process_time()
        plan = resolve(graph, policy)
        assert time.process_time() - start < 2
    assert len({d.compute for d in plan.decisions}) == 2
    assert replace(plan.decisions[0], region=0).rule in asking.rules

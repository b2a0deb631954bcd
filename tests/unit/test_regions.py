"""Which elementwise nodes form a region: the pass itself, on plain graphs."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from truecast import dtypes
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import Plan, resolve
from truecast.sites import Site

REGION = Numerics("region").with_rule(rounding="region")


class Builder:
    """A graph, one node a call."""

    def __init__(self, *names: str, dtype: dtypes.DType = dtypes.bfloat16) -> None:
        self.values = {name: Value(name, dtype, (4,)) for name in names}
        self.inputs = tuple(map(Input, self.values.values()))
        self.nodes: list[Node] = []

    def node(
        self, name: str, op: str, *operands: object, dtype: dtypes.DType | None = None, phase: str = "forward"
    ) -> None:
        arguments = tuple(self.values.get(o, o) if isinstance(o, str) else o for o in operands)
        result = Value(name, dtype or dtypes.bfloat16, (4,))
        self.values[name] = result
        self.nodes.append(Node(op, arguments, (), (result,), Site("m.py", len(self.nodes) + 1, phase=phase)))  # type: ignore[arg-type]

    def plan(self, *outputs: str, numerics: Numerics = REGION) -> Plan:
        graph = Graph("g", self.inputs, tuple(self.nodes), tuple(Output(self.values[o]) for o in outputs)).verify()
        return resolve(graph, numerics)


def numbers(plan: Plan) -> dict[str, int]:
    return {node.name: decision.region for node, decision in plan.pairs()}


def test_a_chain_is_one_region() -> None:
    b = Builder("a", "b")
    b.node("x", "aten.mul.Tensor", "a", "b")
    b.node("y", "aten.add.Tensor", "x", "a")
    b.node("z", "aten.exp.default", "y")
    assert numbers(b.plan("z")) == {"x": 1, "y": 1, "z": 1}


def test_a_lone_node_is_in_none() -> None:
    b = Builder("a")
    b.node("x", "aten.exp.default", "a")
    assert numbers(b.plan("x")) == {"x": 0}


def test_movement_and_reductions_end_a_region() -> None:
    b = Builder("a", "b")
    b.node("x", "aten.mul.Tensor", "a", "b")
    b.node("y", "aten.flip.default", "x", (0,))
    b.node("z", "aten.exp.default", "y")
    b.node("w", "aten.sin.default", "z")
    assert numbers(b.plan("w")) == {"x": 0, "y": 0, "z": 1, "w": 1}
    b = Builder("a", "b")
    b.node("x", "aten.mul.Tensor", "a", "b")
    b.node("y", "aten.cumsum.default", "x", 0)
    b.node("z", "aten.exp.default", "y")
    assert numbers(b.plan("z")) == {"x": 0, "y": 0, "z": 0}


def test_the_users_own_cast_ends_a_region() -> None:
    b = Builder("a", "b")
    b.node("x", "aten.mul.Tensor", "a", "b")
    b.node("y", "aten._to_copy.default", "x", dtype=dtypes.float32)
    b.node("z", "aten.exp.default", "y", dtype=dtypes.float32)
    assert numbers(b.plan("z")) == {"x": 0, "y": 0, "z": 0}


def test_float32_values_have_nothing_to_keep_wide() -> None:
    b = Builder("a", "b", dtype=dtypes.float32)
    b.node("x", "aten.mul.Tensor", "a", "b", dtype=dtypes.float32)
    b.node("y", "aten.exp.default", "x", dtype=dtypes.float32)
    assert numbers(b.plan("y")) == {"x": 0, "y": 0}


def test_a_region_does_not_cross_into_the_backward_pass() -> None:
    b = Builder("a", "b")
    b.node("x", "aten.mul.Tensor", "a", "b")
    b.node("y", "aten.exp.default", "x")
    b.node("dy", "aten.mul.Tensor", "y", "b", phase="backward")
    b.node("dx", "aten.mul.Tensor", "dy", "a", phase="backward")
    assert numbers(b.plan("dx")) == {"x": 1, "y": 1, "dy": 2, "dx": 2}


def test_different_compute_dtypes_do_not_join() -> None:
    b = Builder("a", "b")
    b.node("x", "aten.mul.Tensor", "a", "b")
    b.node("y", "aten.add.Tensor", "x", "a")
    b.node("z", "aten.exp.default", "y")
    policy = REGION.with_rule(op="aten.add.*", compute="float64")
    assert numbers(b.plan("z", numerics=policy)) == {"x": 0, "y": 0, "z": 0}


def test_a_node_with_another_rounding_does_not_join() -> None:
    b = Builder("a", "b")
    b.node("x", "aten.mul.Tensor", "a", "b")
    b.node("y", "aten.add.Tensor", "x", "a")
    b.node("z", "aten.exp.default", "y")
    b.node("w", "aten.sin.default", "z")
    policy = REGION.with_rule(op="aten.add.*", rounding="op")
    assert numbers(b.plan("w", numerics=policy)) == {"x": 0, "y": 0, "z": 1, "w": 1}
    assert set(numbers(b.plan("w", numerics=Numerics.preset("eager"))).values()) == {0}


def test_a_comparison_reads_wide_and_makes_nothing_wide() -> None:
    b = Builder("a", "b")
    b.node("x", "aten.mul.Tensor", "a", "b")
    b.node("c", "aten.gt.Tensor", "x", "a", dtype=dtypes.bool_)
    b.node("d", "aten.logical_not.default", "c", dtype=dtypes.bool_)
    assert numbers(b.plan("d")) == {"x": 1, "c": 1, "d": 0}


def test_a_storage_map_decides_what_is_wide() -> None:
    b = Builder("a", "b", dtype=dtypes.float32)
    b.node("x", "aten.mul.Tensor", "a", "b", dtype=dtypes.float32)
    b.node("y", "aten.exp.default", "x", dtype=dtypes.float32)
    held_narrow = REGION.with_settings(storage=(("float32", "bfloat16"),))
    assert numbers(b.plan("y", numerics=held_narrow)) == {"x": 0, "y": 0}, "computed in bfloat16, as it is held"


@st.composite
def programs(draw: st.DrawFn) -> Builder:
    b = Builder("a", "b")
    for index in range(draw(st.integers(1, 14))):
        op, arity = draw(
            st.sampled_from(
                (("aten.mul.Tensor", 2), ("aten.add.Tensor", 2), ("aten.exp.default", 1), ("aten.clone.default", 1))
            )
        )
        b.node(f"v{index}", op, *(draw(st.sampled_from(sorted(b.values))) for _ in range(arity)))
    return b


@given(programs())
@settings(max_examples=150, deadline=None)
def test_a_region_is_a_connected_set_of_wide_edges(b: Builder) -> None:
    plan = b.plan(*(node.name for node in b.nodes[-2:]))
    region = numbers(plan)
    edges = [(v.name, node.name) for node in plan.graph.nodes for v in node.inputs if v.name in region]
    elementwise = {node.name for node in plan.graph.nodes if node.op != "aten.clone.default"}
    for source, target in edges:
        if {source, target} <= elementwise:
            assert region[source] == region[target] != 0, "an elementwise edge stays wide"
    for name, number in region.items():
        joined = any(name in edge and set(edge) <= elementwise for edge in edges)
        assert (number != 0) == joined
    assert sorted({n for n in region.values() if n}) == list(range(1, 1 + len({n for n in region.values() if n})))


def test_it_is_deterministic_and_numbers_in_program_order() -> None:
    b = Builder("a", "b")
    for index in range(30):
        b.node(f"x{index}", "aten.mul.Tensor", "a", "b")
    for index in random.Random(0).sample(range(30), 30):
        b.node(f"y{index}", "aten.exp.default", f"x{index}")
    first, second = b.plan("y3"), b.plan("y3")
    assert first.decisions == second.decisions
    assert [numbers(first)[f"x{i}"] for i in range(30)] == list(range(1, 31))
    renamed = replace(first.graph, name="other")
    assert [d.region for d in resolve(renamed, REGION).decisions] == [d.region for d in first.decisions]

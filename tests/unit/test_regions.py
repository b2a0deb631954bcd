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


def test_a_residual_stream_is_rounded_between_layers() -> None:
    b = Builder("x", "w")
    for i in (0, 1, 2):
        b.node(f"y{i}", "aten.mul.Tensor", "x" if i == 0 else f"r{i - 1}", "w")
        b.node(f"f{i}", "aten.flip.default", f"y{i}", (0,))
        b.node(f"g{i}", "aten.exp.default", f"f{i}")
        b.node(f"r{i}", "aten.add.Tensor", "x" if i == 0 else f"r{i - 1}", f"g{i}")
    found = numbers(b.plan("r2"))
    # r0 is read by y1 next to it, and by r1 behind a movement: the first edge is wide, the second is not.
    assert found == {
        **{"y0": 0, "g0": 1, "r0": 1, "y1": 1, "g1": 2, "r1": 2, "y2": 2, "g2": 3, "r2": 3},
        **{"f0": 0, "f1": 0, "f2": 0},
    }


def test_a_value_read_behind_a_barrier_alone_stays_wide_there() -> None:
    b = Builder("a", "b")
    b.node("gate", "aten.exp.default", "a")
    b.node("y", "aten.mul.Tensor", "b", "b")
    b.node("f", "aten.flip.default", "y", (0,))
    b.node("z", "aten.mul.Tensor", "f", "gate")
    assert numbers(b.plan("z")) == {"gate": 1, "z": 1, "y": 0, "f": 0}


def test_movement_of_inputs_is_no_barrier() -> None:
    b = Builder("a", "b")
    b.node("e", "aten.flip.default", "b", (0,))
    b.node("f", "aten.flip.default", "e", (0,))
    b.node("x", "aten.exp.default", "a")
    b.node("y", "aten.mul.Tensor", "x", "f")
    b.node("z", "aten.mul.Tensor", "x", "a")
    b.node("w", "aten.add.Tensor", "y", "z")
    assert numbers(b.plan("w", "z")) == {"e": 0, "f": 0, "x": 1, "y": 1, "z": 1, "w": 1}


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
@settings(max_examples=300, deadline=None)
def test_a_region_is_connected_elementwise_and_no_path_leaves_and_returns(b: Builder) -> None:
    plan = b.plan(*(node.name for node in b.nodes[-2:]))
    region = numbers(plan)
    edges = [(v.name, node.name) for node in plan.graph.nodes for v in node.inputs if v.name in region]
    barriers = {node.name for node in plan.graph.nodes if node.op == "aten.clone.default"}
    assert not any(region[name] for name in barriers)
    for number in set(region.values()) - {0}:
        inside = {name for name, n in region.items() if n == number}
        reached = {next(iter(inside))}
        while more := {x for edge in edges if set(edge) <= inside and set(edge) & reached for x in edge} - reached:
            reached |= more
        assert reached == inside, "a region is connected"
        left = {target for source, target in edges if source in inside} - inside
        while more := {target for source, target in edges if source in left} - left:
            left |= more
        assert not left & inside, "no path leaves a region and returns"
    assert sorted(set(region.values()) - {0}) == list(range(1, 1 + len(set(region.values()) - {0})))


@given(programs())
@settings(max_examples=100, deadline=None)
def test_an_elementwise_edge_that_nothing_could_come_between_is_wide(b: Builder) -> None:
    plan = b.plan(*(node.name for node in b.nodes[-2:]))
    region = numbers(plan)
    readers = plan.graph.consumers()
    kept = {output.value.name for output in plan.graph.outputs if output.value is not None}
    for node in plan.graph.nodes:
        for value in node.inputs:
            if value.name in region and value.name not in kept and len(readers[value.name]) == 1:
                both = {node.op, next(n for n in plan.graph.nodes if n.name == value.name).op}
                assert "aten.clone.default" in both or region[value.name] == region[node.name] != 0


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

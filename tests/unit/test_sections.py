"""A Plan in sections: where it is cut, what is handed on, and that looking at values changes none of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from truecast import dtypes
from truecast.capture import recorder
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.lowering.sections import canonical, cut, sections
from truecast.numerics.mixing import explicit_rounding
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import Plan, resolve
from truecast.runtime.observing import Observer
from truecast.sites import Site

REGION = Numerics.preset("cpu")


def graph_of(*modules: str, size: int = 4) -> Graph:
    """A chain of multiplications, one in each module."""
    x = Value("x", dtypes.bfloat16, (size,))
    values = [x]
    nodes = []
    for index, module in enumerate(modules):
        values.append(Value(f"v{index}", dtypes.bfloat16, (size,)))
        nodes.append(Node("aten.mul.Tensor", (values[-2], x), (), (values[-1],), Site("m.py", 1, module=module)))
    return Graph("g", (Input(x),), tuple(nodes), (Output(values[-1]),)).verify()


def test_small_programs_are_whole() -> None:
    assert cut(graph_of("a", "b", "c"), 3, 100) == (range(3),)


def test_cuts_are_at_the_outermost_modules() -> None:
    names = ["embed", *(f"layers.{i}.{part}" for i in range(3) for part in ("norm", "attention", "mlp")), "head"]
    assert cut(graph_of(*names), 3, 1000) == (range(1), range(1, 4), range(4, 7), range(7, 10), range(10, 11))


def test_one_module_is_cut_in_halves() -> None:
    assert cut(graph_of(*["a"] * 8), 3, 1000) == (range(2), range(2, 4), range(4, 6), range(6, 8))


def test_elements_bound_a_section_but_not_a_node() -> None:
    assert cut(graph_of("a", "b", size=10), 100, 15) == (range(1), range(1, 2))
    assert cut(graph_of("a", size=10), 100, 5) == (range(1),)


def test_a_few_nodes_between_layers_join_what_is_before_them() -> None:
    names = [*["layers.0"] * 30, "glue", *["layers.1"] * 30]
    assert cut(graph_of(*names), 32, 1000) == (range(31), range(31, 61))


@given(st.lists(st.sampled_from(("", "a", "a.b", "a.c", "a.b.d", "e")), min_size=1, max_size=40), st.integers(1, 9))
def test_stretches_are_in_order_and_leave_nothing_out(modules: list[str], most: int) -> None:
    found = cut(graph_of(*modules), most, 10**6)
    assert [i for stretch in found for i in stretch] == list(range(len(modules)))
    assert all(len(stretch) <= most for stretch in found)


def run(plan: Plan, stretches: tuple[range, ...], observed: frozenset[str], x: torch.Tensor) -> Any:
    observer = Observer(plan, stretches, observed)
    observer.start({"x": x}, (1, 2))
    seen: dict[str, Any] = {}
    for number in range(len(observer)):
        seen.update(observer.run(number))
    return [np.asarray(a) for a in observer.outputs()], seen, observer


X = torch.linspace(0.5, 1.5, 64).bfloat16()


def test_a_region_that_is_cut_stays_wide_across_the_cut() -> None:
    graph = graph_of("a", "b", "c", size=64)
    plan = resolve(graph, REGION)
    assert {d.region for d in plan.decisions} == {1}
    want = (X.float() * X.float() * X.float() * X.float()).bfloat16()
    rounded_between = X * X * X * X
    assert not torch.equal(want, rounded_between), "the data must tell one rounding from three"
    for stretches in ((range(3),), (range(1), range(1, 3)), (range(1), range(1, 2), range(2, 3))):
        (got,), _, _ = run(plan, stretches, frozenset(), X)
        np.testing.assert_array_equal(got.astype(np.float32), want.float().numpy())


def test_a_value_inside_a_region_is_seen_before_rounding_and_not_rounded_for_it() -> None:
    plan = resolve(graph_of("a", "b", size=64), REGION)
    (plain,), _, _ = run(plan, (range(2),), frozenset(), X)
    (got,), seen, _ = run(plan, (range(2),), frozenset(("v0", "v1")), X)
    np.testing.assert_array_equal(got, plain)
    assert seen["v0"].dtype == np.float32
    np.testing.assert_array_equal(seen["v0"], (X.float() * X.float()).numpy())
    assert seen["v1"].dtype == dtypes.numpy_dtype(dtypes.bfloat16)


def test_layers_that_differ_in_names_alone_are_compiled_once() -> None:
    graph = graph_of(*(f"layers.{i}.{part}" for i in range(5) for part in "abc"))
    plan = resolve(graph, Numerics.preset("eager"))
    stretches = cut(graph, 3, 1000)
    assert len(stretches) == 5
    first, second = (canonical(s)[0] for s in sections(plan, stretches, frozenset())[1:3])
    assert first == second
    _, _, observer = run(plan, stretches, frozenset(), torch.ones(4, dtype=torch.bfloat16))
    assert observer.compilations == 2, "the first reads x twice, the others x and what came before"


def test_runs_share_what_their_plans_decide_alike() -> None:
    graph = graph_of("a", "b")
    plans = [resolve(graph, Numerics.preset(name)) for name in ("eager", "cuda", "torch_xla-2.9")]
    compiled: dict[Any, Any] = {}
    for plan in plans:
        observer = Observer(plan, (range(2),), frozenset(), compiled=compiled)
        observer.start({"x": torch.ones(4, dtype=torch.bfloat16)}, (1, 2))
        observer.run(0)
    assert len(compiled) == 2, "eager and cuda decide alike"


def test_between_sections_nothing_is_kept_that_nobody_reads() -> None:
    graph = graph_of(*"abcdef")
    plan = resolve(graph, Numerics.preset("eager"))
    observer = Observer(plan, tuple(range(i, i + 1) for i in range(6)), frozenset())
    observer.start({"x": torch.ones(4, dtype=torch.bfloat16)}, (1, 2))
    for number in range(6):
        observer.run(number)
        assert list(observer._held.rounded) == [f"v{number}"]
        assert not observer._held.wide


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(16), torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(self.norm(x))
        gate = torch.sigmoid(h) * h * 1.5 + h
        return x + self.dropout(self.down(gate)) * torch.rand_like(x)


@pytest.mark.parametrize("preset", ["cpu", "torch_xla-2.9"])
def test_observed_or_not_in_sections_or_whole_the_bits_are_the_same(preset: str) -> None:
    torch.manual_seed(0)
    model = Layer().bfloat16()
    x = torch.randn(8, 16).bfloat16()
    captured = recorder.trace(model, (x,))
    graph = captured.graph
    # What is left to XLA may differ by what XLA sees at once; what truecast decides may not.
    plan = resolve(graph, explicit_rounding(Numerics.preset(preset), "region"))
    everything = frozenset(v.name for node in graph.nodes for v in node.outputs if v is not None)
    whole = (range(len(graph.nodes)),)
    tensors = {**captured.bound, **{name: x for name in captured.arguments if name is not None}}
    results = []
    for stretches, observed in ((whole, frozenset()), (whole, everything), (cut(graph, 5, 10**6), everything)):
        observer = Observer(plan, stretches, observed)
        observer.start(tensors, (3, 4))
        for number in range(len(observer)):
            observer.run(number)
        results.append(np.asarray(observer.outputs()[0]))
    assert np.isfinite(results[0].astype(np.float32)).all() and results[0].any()
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])

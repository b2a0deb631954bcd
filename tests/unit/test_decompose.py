"""Which operations become others at capture, and that they compute the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import truecast as tc
from tests.interpret import interpret
from truecast import ops
from truecast.capture import torch_seam
from truecast.capture.decompose import decomposition_table, definition_of, expand
from truecast.capture.recorder import trace
from truecast.dtypes import bfloat16, float32
from truecast.errors import UnsupportedError
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.ops.schema import overload, schema


@pytest.mark.parametrize("op", ["aten.mm.default", "aten._softmax.default", "aten.gelu.default", "aten.addmm.default"])
def test_an_operation_with_a_row_stays(op: str) -> None:
    assert ops.lookup(op) is not None
    assert definition_of(op) is None
    assert overload(op) not in decomposition_table()


@pytest.mark.parametrize("op", ["aten.linear.default", "aten.matmul.default", "aten.layer_norm.default"])
def test_a_composite_has_a_definition(op: str) -> None:
    row = ops.lookup(op)
    assert row is not None and row.kind == "composite"
    assert definition_of(op) is not None


def test_the_table_for_export_takes_the_same_decision() -> None:
    table = decomposition_table()
    assert len(table) > 100
    for func in table:
        row = ops.lookup(f"{func.namespace}.{func._opname}.{func._overloadname}")
        assert row is None or row.kind == "composite", func


def test_a_definition_that_converts_by_itself_is_recognised() -> None:
    table = torch_seam.core_decompositions()
    for name, expected in (("gelu_backward", True), ("mse_loss", True), ("addcmul", True), ("slice_backward", False)):
        found = [f for f in table if f._opname == name]
        assert found, f"{name}: PyTorch has no decomposition of it any more"
        assert torch_seam.decides_precision(table[found[0]]) is expected, name


def test_expanding_keeps_types_sites_and_names_apart() -> None:
    a, b = Value("a", float32, (2, 3)), Value("b", bfloat16, (4, 3))
    wide, out = Value("wide", float32, (4, 3)), Value("linear_1", float32, (2, 4))
    again = Value("again", float32, (2, 4))
    nodes = (
        Node("aten._to_copy.default", (b,), (("dtype", float32),), (wide,)),
        Node("aten.linear.default", (a, wide), (), (out,)),
        Node("aten.linear.default", (a, wide), (), (again,)),
        Node("aten.mul.Tensor", (out, again), (), (Value("mul_1", float32, (2, 4)),)),
    )
    graph = Graph("g", (Input(a), Input(b)), nodes, (Output(nodes[3].outputs[0]), Output(again))).verify()
    expanded = expand(graph).verify()
    assert [n.op for n in expanded.nodes if n.op != "aten.t.default"] == [
        "aten._to_copy.default",
        "aten.mm.default",
        "aten.mm.default",
        "aten.mul.Tensor",
    ]
    x, w = torch.randn(2, 3), torch.randn(4, 3).bfloat16()
    got = interpret(expanded, [x, w])
    torch.testing.assert_close(got[1], torch.nn.functional.linear(x, w.float()))
    torch.testing.assert_close(got[0], got[1] * got[1])


def test_a_definition_may_write_and_return_several() -> None:
    a = Value("a", float32, (2, 3))
    outputs = (Value("first", float32, (2, 3)), Value("second", float32, (2, 3)))
    node = Node("aten._foreach_exp.default", ((a, a),), (), outputs)
    graph = Graph("g", (Input(a),), (node,), tuple(Output(v) for v in outputs)).verify()
    x = torch.randn(2, 3)
    for got in interpret(expand(graph).verify(), [x]):
        torch.testing.assert_close(got, x.exp())


def _foreach_overloads() -> list[str]:
    found = []
    for name in sorted(n for n in ops.table() if n.startswith("_foreach_") and "." not in n):
        for variant in getattr(torch.ops.aten, name).overloads():
            op = f"aten.{name}.{variant}"
            if schema(op).is_functional and definition_of(op) is not None:
                found.append(op)
    return found


@pytest.mark.parametrize("op", _foreach_overloads())
def test_each_foreach_operation_is_its_elements(op: str) -> None:
    torch.manual_seed(0)
    tensors = [torch.rand(2, 2) + 0.5, torch.rand(3, 3) + 0.5]

    def argument(parameter: Any) -> Any:
        if parameter.cls == "tensor_list":
            return [torch.rand_like(t) + 0.5 for t in tensors]
        if parameter.cls == "tensor":
            return torch.tensor(1.5)
        return [2.0, 3.0] if "List" in parameter.type else 2.0

    args = [argument(p) for p in schema(op).parameters if not p.has_default or p.name in ("value", "ord")]
    expected = overload(op)(*args)
    captured = trace(lambda *given: overload(op)(*given), tuple(args))
    assert not any("_foreach_" in node.op for node in captured.graph.nodes)
    leaves = [t for a in args for t in (a if isinstance(a, list) else [a]) if isinstance(t, torch.Tensor)]
    names = [n for n in captured.arguments if n is not None]
    given = dict(zip(names, leaves, strict=True))
    got = interpret(captured.graph, [given[i.value.name] for i in captured.graph.inputs])
    for index, want in zip(captured.results, expected, strict=True):
        torch.testing.assert_close(got[index], want, equal_nan=True)


@pytest.mark.parametrize("use_gelu", (False, True))
def test_an_activated_product_is_rounded_before_the_activation(use_gelu: bool) -> None:
    def program(*given: torch.Tensor) -> torch.Tensor:
        return torch._addmm_activation(*given, beta=2, alpha=3, use_gelu=use_gelu)

    given = [torch.randn(shape).bfloat16() for shape in ((4,), (3, 5), (5, 4))]
    graph = trace(program, tuple(given)).graph
    assert [n.op for n in graph.nodes] == ["aten.addmm.default", f"aten.{'gelu' if use_gelu else 'relu'}.default"]
    (got,) = interpret(graph, given)
    assert torch.equal(got, program(*given))


@torch.library.custom_op("truecast_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return (x.float() * factor).to(x.dtype)


@scaled.register_fake
def _(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("truecast_tests::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() + 1)


@opaque.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_a_custom_operation_is_the_python_that_defines_it() -> None:
    x = torch.randn(3).bfloat16()
    graph = trace(lambda x: scaled(x, 3.0) + 1, (x,)).graph
    assert [n.op for n in graph.nodes] == [
        "aten._to_copy.default",
        "aten.mul.Tensor",
        "aten._to_copy.default",
        "aten.add.Tensor",
    ]
    (got,) = interpret(graph, [x])
    assert torch.equal(got, scaled(x, 3.0) + 1)


def test_a_custom_operation_that_does_more_stays_and_is_refused_by_name() -> None:
    graph = trace(lambda x: opaque(x) * 2, (torch.randn(3),)).graph
    assert [n.op for n in graph.nodes] == ["truecast_tests.opaque.default", "aten.mul.Tensor"]
    with pytest.raises(UnsupportedError, match=r"truecast_tests\.opaque\.default has no lowering rule"):
        tc.lower(graph, numerics="cpu").stablehlo  # noqa: B018  (lowering is lazy)

"""Law N12: at an operation that demands equal dtypes, PyTorch's own error, or casts that stand in the Plan."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.twin import run, to_numpy
from truecast import dtypes
from truecast.errors import ContractError
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import resolve
from truecast.sites import Site

STRICT = Numerics("strict")
LENIENT = Numerics("lenient", on_mismatch="cast")
SITE = Site("/home/user/train.py", 41, 11)


def graph_of(op: str, operands: dict[str, torch.Tensor], result: torch.Tensor, *rest: object) -> Graph:
    values = {name: Value(name, dtypes.of(t.dtype), tuple(t.shape)) for name, t in operands.items()}
    output = Value("out", dtypes.of(result.dtype), tuple(result.shape))
    node = Node(op, (*values.values(), *rest), (), (output,), SITE)
    return Graph("call", tuple(map(Input, values.values())), (node,), (Output(output),)).verify()


def narrow(*shape: int) -> torch.Tensor:
    return torch.randn(shape).bfloat16()


def test_error_is_pytorchs_own_with_the_source_line() -> None:
    graph = graph_of("aten.mm.default", {"a": torch.randn(2, 3), "w": narrow(3, 4)}, narrow(2, 4))
    with pytest.raises(RuntimeError) as eager:
        torch.mm(torch.randn(2, 3), narrow(3, 4))
    with pytest.raises(ContractError) as ours:
        resolve(graph, STRICT)
    assert type(ours.value.exception) is RuntimeError
    assert str(ours.value.exception) == str(eager.value)
    assert str(ours.value) == (
        f"{eager.value}\n"
        "  --> train.py:41:11\n"
        "  values: aten.mm.default: self float32, mat2 bfloat16\n"
        "  why: PyTorch eager refuses these dtypes (law N12)\n"
        '  help: cast self to bfloat16 in the program, or let the policy do it: on_mismatch = "cast"'
    )


def test_cast_makes_the_activation_follow_the_weight() -> None:
    a, w = torch.randn(5, 8), narrow(8, 4)
    graph = graph_of("aten.mm.default", {"a": a, "w": w}, narrow(5, 4))
    plan = resolve(graph, LENIENT)
    (decision,) = plan.decisions
    assert decision.casts == (("self", dtypes.bfloat16),)
    assert (decision.compute, decision.accumulate) == (dtypes.bfloat16, dtypes.float32)
    assert decision.why.endswith("self cast to bfloat16, since on_mismatch = cast (law N12)")
    (got,) = run(graph, [a, w], LENIENT)
    want = to_numpy(a.bfloat16() @ w)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2**-8)


def test_a_cast_rounds_also_where_the_arithmetic_is_wider() -> None:
    a, w = torch.randn(5, 8), narrow(8, 4)
    graph = graph_of("aten.mm.default", {"a": a, "w": w}, torch.randn(5, 4))
    (got,) = run(graph, [a, w], LENIENT.with_rule(compute="float32"))
    want = a.bfloat16().float() @ w.float()
    # 8 products: float32 sums differ by less than 8 * 2^-24 of the largest partial sum; the cast changes 2^-9.
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5)
    assert not np.allclose(got, (a @ w.float()).numpy(), rtol=1e-5, atol=1e-5), "the data must show the rounding"


def test_each_cast_stands_in_the_plan_as_text() -> None:
    graph = graph_of("aten.mm.default", {"a": torch.randn(2, 3), "w": narrow(3, 4)}, narrow(2, 4))
    text = resolve(graph, LENIENT).text(100)
    assert "  CASTS      1 operands are cast to agree with a weight (on_mismatch = cast, law N12)\n" in text
    assert "             train.py:41:11: self to bfloat16 of aten.mm.default\n" in text
    assert "CASTS" not in resolve(
        graph_of("aten.mm.default", {"a": narrow(2, 3), "w": narrow(3, 4)}, narrow(2, 4)), LENIENT
    ).text(100)


@pytest.mark.parametrize("input_dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("weight_dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("bias_dtype", (torch.float32, torch.bfloat16))
def test_convolution_follows_its_weight(
    input_dtype: torch.dtype, weight_dtype: torch.dtype, bias_dtype: torch.dtype
) -> None:
    x, w, b = torch.randn(2, 3, 6, 6).to(input_dtype), torch.randn(4, 3, 3, 3).to(weight_dtype), torch.randn(4)
    b = b.to(bias_dtype)
    y = torch.conv2d(x.to(weight_dtype), w, b.to(weight_dtype))
    rest = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    graph = graph_of("aten.convolution.default", {"x": x, "w": w, "b": b}, y, *rest)
    (decision,) = resolve(graph, LENIENT).decisions
    unlike = [name for name, t in (("input", x), ("bias", b)) if t.dtype != weight_dtype]
    assert decision.casts == tuple((name, dtypes.of(weight_dtype)) for name in unlike)
    if unlike:
        with pytest.raises(ContractError):
            resolve(graph, STRICT)


def test_an_operation_without_arithmetic_of_its_own_is_cast_too() -> None:
    table, index, new = narrow(4), torch.tensor([1, 3]), torch.randn(2)
    graph = graph_of("aten.index_put.default", {"t": table, "i": index, "n": new}, table)
    node = graph.nodes[0]
    t, i, n = node.args
    node = Node(node.op, (t, (i,), n), (), node.outputs, SITE)
    graph = Graph("call", graph.inputs, (node,), graph.outputs).verify()
    with pytest.raises(ContractError, match="Index put requires the source and destination dtypes match"):
        resolve(graph, STRICT)
    (decision,) = resolve(graph, LENIENT).decisions
    assert decision.casts == (("values", dtypes.bfloat16),)
    (got,) = run(graph, [table, index, new], LENIENT)
    np.testing.assert_array_equal(got, to_numpy(table.index_put((index,), new.bfloat16())))


def test_what_no_cast_mends_raises_under_both() -> None:
    table, index = torch.randn(4, 2), torch.randn(3)
    graph = graph_of("aten.embedding.default", {"w": table, "i": index}, torch.randn(3, 2))
    for policy in (STRICT, LENIENT):
        with pytest.raises(ContractError):
            resolve(graph, policy)


def test_equal_dtypes_need_no_cast() -> None:
    graph = graph_of("aten.mm.default", {"a": narrow(2, 3), "w": narrow(3, 4)}, narrow(2, 4))
    assert resolve(graph, LENIENT).decisions[0].casts == ()

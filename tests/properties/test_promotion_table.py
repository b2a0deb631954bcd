"""Law N1, property-wise: the result type of any number of operands, whatever their forms, is PyTorch's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truecast import dtypes, ops
from truecast.dtypes import DType, OperandForm, promote, result_type
from truecast.graph import Node, Value
from truecast.ops.operands import promoted_dtype, result_dtypes

_UNPROMOTED = ("uint16", "uint32", "uint64", "complex32")
LATTICE = [d for d in dtypes.BY_NAME.values() if d.name not in _UNPROMOTED and not d.name.startswith("float8")]
lattice = st.sampled_from(LATTICE)
forms: st.SearchStrategy[OperandForm] = st.sampled_from(["dimensioned", "zero_dim"])
scalars = st.sampled_from([True, 3, 1.5, 1.5j])


@given(lattice, lattice, lattice)
def test_promotion_is_a_least_upper_bound(a: DType, b: DType, c: DType) -> None:
    assert promote(a, a) is a
    assert promote(a, b) is promote(b, a)
    assert promote(promote(a, b), a) is promote(a, b)
    assert promote(promote(a, b), c) is promote(a, promote(b, c))


@given(st.lists(st.tuples(lattice, forms), min_size=1, max_size=4), st.lists(scalars, max_size=2))
@settings(max_examples=300, deadline=None)
def test_result_type_of_many_operands(tensors: list[tuple[DType, OperandForm]], numbers: list[complex]) -> None:
    """torch.cat has PyTorch's result type of all its operands, but refuses 0-dim ones: stack takes those alone."""
    operands: list[tuple[DType, OperandForm]] = [*tensors, *((dtypes.of(type(x)), "scalar") for x in numbers)]
    shuffled = operands[::-1]
    assert result_type(operands) is result_type(shuffled)
    made = [torch.empty((2,) if form == "dimensioned" else (), dtype=dtypes.torch_dtype(d)) for d, form in tensors]
    dimensioned = [t for t in made if t.ndim]
    if len(dimensioned) > 1:
        expected = torch.cat(dimensioned).dtype
        places = [(d, form) for d, form in tensors if form == "dimensioned"]
        assert dtypes.torch_dtype(result_type(places)) is expected
    if len(made) == 3:
        condition = torch.ones(2, dtype=torch.bool)
        assert dtypes.torch_dtype(result_type(tensors[:2])) is torch.where(condition, made[0], made[1]).dtype


@pytest.mark.parametrize("op", ["add", "mul", "maximum", "atan2", "eq", "logical_and"])
@given(lattice, forms, lattice, forms)
@settings(max_examples=60, deadline=None)
def test_a_binary_operations_result(op: str, a: DType, a_form: OperandForm, b: DType, b_form: OperandForm) -> None:
    packet = getattr(torch.ops.aten, op)
    variant = "Tensor" if "Tensor" in packet.overloads() else "default"
    shapes = [(2,) if form == "dimensioned" else () for form in (a_form, b_form)]
    tensors = [torch.ones(s, dtype=dtypes.torch_dtype(d)) for s, d in zip(shapes, (a, b), strict=True)]
    name = f"aten.{op}.{variant}"
    node = Node(name, tuple(Value(f"x{k}", d, s) for k, (d, s) in enumerate(zip((a, b), shapes, strict=True))), (), ())
    row = ops.lookup(name)
    assert row is not None
    if (a.category == "complex" or b.category == "complex") and op in ("maximum", "atan2"):
        return  # eager refuses complex here
    result = getattr(packet, variant)(*tensors)
    assert dtypes.torch_dtype(result_dtypes(node, row)[0]) is result.dtype
    held = Node(name, node.args, (), (Value("out", dtypes.of(result.dtype), tuple(result.shape)),))
    if op != "eq" and op != "logical_and":
        assert promoted_dtype(held, row) is dtypes.of(result.dtype)

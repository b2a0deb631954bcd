"""Which arguments of a node take part in its arithmetic, and the dtype PyTorch promotes them to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from truecast import dtypes
from truecast.dtypes import DType, OperandForm
from truecast.graph import Node, Value
from truecast.ops.schema import bind, schema
from truecast.ops.table import Op


def numeric_names(node: Node, op: Op) -> frozenset[str]:
    """The schema arguments that the table's row calls numeric."""
    if op.numeric is not None:
        return frozenset(op.numeric)
    return frozenset(p.name for p in schema(node.op).parameters if p.cls in ("tensor", "tensor_list", "scalar"))


def bound(node: Node) -> dict[str, Any]:
    """The node's arguments by schema name, defaults filled in."""
    return bind(node.op, node.args, node.kwargs)


def forms(arguments: Mapping[str, Any], numeric: frozenset[str]) -> Iterator[tuple[DType, OperandForm]]:
    """Dtype and form of each numeric operand among `arguments`."""
    for name, argument in arguments.items():
        if name in numeric:
            for item in argument if isinstance(argument, tuple) else (argument,):
                if isinstance(item, Value):
                    yield item.dtype, "scalar" if item.scalar else "dimensioned" if item.shape else "zero_dim"
                elif isinstance(item, bool | int | float | complex):
                    yield dtypes.of(type(item)), "scalar"


def promoted_dtype(node: Node, op: Op) -> DType:
    """The dtype that the node's arithmetic is about, before any policy: a `dtype=` argument if given, else
    the promotion of the numeric operands; for int_to_float and sum, the dtype that PyTorch turns it into."""
    arguments = bound(node)
    result = next((v.dtype for v in node.outputs if v is not None), dtypes.float32)
    explicit = arguments.get("dtype")
    if isinstance(explicit, DType) and op.kind != "cast":
        return explicit
    operands = list(forms(arguments, numeric_names(node, op)))
    if op.promotion == "none":
        tensors = [o for o in operands if o[1] != "scalar"] or operands
        operands = tensors
    if not operands:
        return result
    try:
        promoted = dtypes.result_type(operands)
    except RuntimeError:
        promoted = operands[0][0]
    if op.promotion == "int_to_float" and not promoted.is_inexact:
        return result if result.is_inexact else dtypes.float32
    if op.promotion == "sum" and not promoted.is_inexact:
        return result
    return promoted

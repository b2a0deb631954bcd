"""Which arguments of a node take part in its arithmetic, and the dtypes PyTorch gives to its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from truecast import dtypes
from truecast.dtypes import DType, OperandForm
from truecast.graph import Node, Value
from truecast.ops import lookup
from truecast.ops.schema import bind, schema
from truecast.ops.table import RETURN_DTYPES, Op

# Multipliers (add's alpha, addmm's beta, addcmul's value): cast to the compute dtype, but they never promote.
_MULTIPLIERS = frozenset(("alpha", "beta", "value"))
# Promotions in which Python scalars take part.
PROMOTING = frozenset(("promote", "int_to_float", "promote_to_bool"))
_FIXED = frozenset(("bool", "int32", "int64", "uint8"))


def numeric_names(node: Node, op: Op) -> frozenset[str]:
    """The schema arguments that the table's row calls numeric."""
    if op.numeric is not None:
        return frozenset(op.numeric)
    return frozenset(p.name for p in schema(node.op).parameters if p.cls in ("tensor", "tensor_list", "scalar"))


def bound(node: Node) -> dict[str, Any]:
    """The node's arguments by schema name, defaults filled in."""
    return bind(node.op, node.args, node.kwargs)


def forms(arguments: Mapping[str, Any], numeric: frozenset[str]) -> Iterator[tuple[DType, OperandForm]]:
    """Dtype and form of each numeric operand among `arguments` that takes part in promotion."""
    for name, argument in arguments.items():
        if name in numeric and name not in _MULTIPLIERS:
            for item in argument if isinstance(argument, tuple) else (argument,):
                if isinstance(item, Value):
                    yield item.dtype, "scalar" if item.scalar else "dimensioned" if item.shape else "zero_dim"
                elif isinstance(item, bool | int | float | complex):
                    yield dtypes.of(type(item)), "scalar"


def promoted_dtype(node: Node, op: Op) -> DType:
    """The dtype that the node's arithmetic is about, before any policy: a `dtype=` argument if given, else
    the promotion of the numeric operands; for int_to_float and sum, the dtype that PyTorch turns it into."""
    return _promoted(node, op, bound(node), _default_dtype(node))


def _default_dtype(node: Node) -> DType:
    """torch.get_default_dtype() as the node saw it, where that shows: a float result of no float operand."""
    result = next((v.dtype for v in node.outputs if v is not None), dtypes.float32)
    real = dtypes.real_of(result)
    return real if real.is_floating else dtypes.float32


def _promoted(node: Node, op: Op, arguments: Mapping[str, Any], default: DType) -> DType:
    explicit = arguments.get("dtype")
    if isinstance(explicit, DType) and op.kind != "cast":
        return explicit
    operands = list(forms(arguments, numeric_names(node, op)))
    if op.promotion not in PROMOTING:
        operands = [o for o in operands if o[1] != "scalar"] or operands
    if not operands:
        return next((v.dtype for v in node.outputs if v is not None), default)
    if op.promotion == "first":
        return operands[0][0]
    try:
        promoted = dtypes.result_type(operands, default)
    except RuntimeError:  # such operands don't promote: contracts.check says so
        promoted = operands[0][0]
    if promoted.is_inexact:
        return promoted
    if op.promotion == "int_to_float" and not isinstance(arguments.get("rounding_mode"), str):
        return default
    return dtypes.int64 if op.promotion == "sum" else promoted


def result_dtypes(node: Node, op: Op, default: DType = dtypes.float32) -> tuple[DType, ...]:
    """The dtype of each tensor that PyTorch eager on the CPU returns for `node`, without looking at its outputs.

    default: torch.get_default_dtype(). A result written in place has its target's dtype. A composite's results
    are its decomposition's affair: ValueError.
    """
    if op.kind in ("composite", "query"):
        raise ValueError(f"{node.op} is a {op.kind}: the table doesn't say its dtypes")
    arguments = bound(node)
    described = schema(node.op)
    written = [arguments[p.name] for p in described.parameters if p.written]
    if written and all(described.written_returns):
        return tuple(value.dtype for value in written[: described.returns])
    promoted = _promoted(Node(node.op, node.args, node.kwargs, ()), op, arguments, default)
    names = op.returns or ("result",) * described.returns
    numeric = numeric_names(node, op)
    return tuple(_returned(name, promoted, op, arguments, numeric, default) for name in names)


def _returned(
    name: str, promoted: DType, op: Op, arguments: Mapping[str, Any], numeric: frozenset[str], default: DType
) -> DType:
    explicit = arguments.get("dtype")
    if name in _FIXED or name in ("default", "literal"):
        if isinstance(explicit, DType):
            return explicit
        if name in _FIXED:
            return dtypes.int32 if arguments.get("out_int32") is True else dtypes.BY_NAME[name]
        return default if name == "default" else _literal(arguments, default)
    if name == "counts":
        weights = arguments["weights"]
        if weights is None:
            return dtypes.int64
        return dtypes.float32 if weights.dtype is dtypes.float32 else dtypes.float64
    if name == "result":
        if isinstance(explicit, DType) and op.kind == "cast":
            return explicit
        if arguments.get("half_to_float") is True:
            return dtypes.float32
        if op.promotion == "promote_to_bool":
            return dtypes.bool_
        return dtypes.real_of(promoted) if op.promotion == "complex_to_real" else promoted
    if name in RETURN_DTYPES:
        if name == "opmath":
            return dtypes.opmath(next((d for d, _ in forms(arguments, numeric)), promoted))
        return dtypes.real_of(promoted) if name == "real" else dtypes.complex_of(promoted)
    for argument in (arguments[n] for n in name.split("|")):
        if isinstance(argument, DType):
            return argument
        first = argument[0] if isinstance(argument, tuple) and argument else argument
        if isinstance(first, Value):
            return first.dtype
    return promoted


def _literal(arguments: Mapping[str, Any], default: DType) -> DType:
    numbers = [arguments[n] for n in ("fill_value", "start", "end", "step", "s") if arguments.get(n) is not None]
    found = dtypes.result_type([(dtypes.of(type(n)), "scalar") for n in numbers], default)
    is_range = "end" in arguments
    return dtypes.int64 if is_range and not found.is_inexact else found


def draws_random_bits(node: Node) -> bool:
    """Whether a node consumes randomness: kind "random", or a dropout probability that is not zero."""
    op = lookup(node.op)
    if op is not None and op.kind == "random":
        return True
    arguments = bound(node)
    return any(arguments.get(name) not in (None, 0, 0.0) for name in ("dropout_p", "dropout"))

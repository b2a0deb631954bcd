"""Checks a node's operand dtypes against what its operation demands, and says which casts would satisfy it.

Imports the leaves and graph. FakeTensor lets linear and layer_norm take mixed dtypes; this does not (law N12).
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from truecast import dtypes
from truecast.dtypes import DType
from truecast.graph import Node, Value
from truecast.ops.operands import PROMOTING, bound, forms, numeric_names, promoted_dtype
from truecast.ops.schema import schema
from truecast.ops.table import Contract, Op


@dataclass(frozen=True, slots=True)
class Violation:
    """Operands whose dtypes an operation refuses.

    operands: the schema arguments that disagree, with their dtypes; message and exception: PyTorch's own.
    casts: (schema argument, dtype) that would satisfy the demand under on_mismatch = "cast" (law N12); ()
    where no cast of an operand does.
    """

    operands: tuple[tuple[str, DType], ...]
    message: str
    exception: type[Exception] = RuntimeError
    casts: tuple[tuple[str, DType], ...] = ()

    def raised(self) -> Exception:
        """The exception that PyTorch eager raises here."""
        return self.exception(self.message)


def check(node: Node, op: Op) -> Violation | None:
    """What PyTorch eager on the CPU refuses about the dtypes of `node`'s operands, or None."""
    if not op.contracts and op.promotion not in PROMOTING:
        return None
    arguments = bound(node)
    for contract in op.contracts:
        given = {
            name: found
            for name in contract.operands
            if (found := list(_dtypes(arguments.get(name), contract.zero_dim, contract.empty)))
        }
        if any(arguments.get(name) is None for name in contract.given):
            continue
        if any(arguments.get(name) is not None for name in contract.absent):
            continue
        violation = _CHECKS[contract.demand](contract, given, arguments)
        if violation is not None:
            return violation
    return _promotion(node, op, arguments)


def _dtypes(argument: Any, zero_dim: bool = True, empty: bool = True) -> Iterator[DType]:
    if isinstance(argument, Value):
        if (zero_dim or argument.shape) and (empty or 0 not in argument.shape):
            yield argument.dtype
    elif isinstance(argument, tuple):
        for item in argument:
            yield from _dtypes(item, zero_dim, empty)


Given = Mapping[str, list[DType]]


def _same(contract: Contract, given: Given, arguments: Mapping[str, Any]) -> Violation | None:
    names = [name for name in contract.operands if name in given]
    if len(names) < 2:
        return None
    anchor, *others = names
    for other in others:
        for expected, found in zip(given[anchor], given[other], strict=False):
            if expected is not found and not _is_allowed(contract, found):
                return _violation(contract, given, arguments, (anchor, expected), (other, found))
    return None


def _allowed(contract: Contract, given: Given, arguments: Mapping[str, Any]) -> Violation | None:
    (name,) = contract.operands
    for dtype in given.get(name, ()):
        if not _is_allowed(contract, dtype):
            return Violation(((name, dtype),), _message(contract, arguments, dtype), _exception(contract))
    return None


def _is_allowed(contract: Contract, dtype: DType) -> bool:
    return dtype.name in contract.allowed or dtype.category in contract.allowed


def _parameters(contract: Contract, given: Given, arguments: Mapping[str, Any]) -> Violation | None:
    name, *names = contract.operands
    dtype = given[name][0]
    parameters = [(n, given[n][0]) for n in names if n in given]
    if not parameters or all(d is dtype for _, d in parameters):
        return None
    first, parameter = parameters[0]
    casts = ((name, parameter), *((n, parameter) for n, d in parameters if d is not parameter))
    if parameter is dtype:
        other, found = next((n, d) for n, d in parameters if d is not dtype)
        message = f"expected scalar type {dtypes.scalar_name(dtype)} but found {dtypes.scalar_name(found)}"
        return Violation(((name, dtype), (other, found)), message, casts=casts[1:])
    for n, d in parameters:
        if d is not dtypes.float32:
            message = "mixed dtype (CPU): expect parameter to have scalar type of Float"
            return Violation(((name, dtype), (n, d)), message, casts=casts)
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return None
    message = "mixed dtype (CPU): all inputs must share same datatype."
    return Violation(((name, dtype), (first, parameter)), message, casts=casts)


_CHECKS = {"same": _same, "allowed": _allowed, "parameters": _parameters}


def _violation(
    contract: Contract,
    given: Given,
    arguments: Mapping[str, Any],
    expected: tuple[str, DType],
    found: tuple[str, DType],
) -> Violation:
    leader = contract.follow or contract.operands[0]
    target = given[leader][0]
    casts = tuple((n, target) for n in contract.operands if n in given and any(d is not target for d in given[n]))
    message = _message(contract, arguments, found[1], expected[1])
    return Violation((expected, found), message, _exception(contract), casts)


def _exception(contract: Contract) -> type[Exception]:
    exception: type[Exception] = getattr(builtins, contract.exception)
    return exception


class _Spelling:
    """How PyTorch's messages spell a dtype."""

    def __init__(self, dtype: DType) -> None:
        self.scalar, self.cpp, self.tensor = (
            dtypes.scalar_name(dtype),
            dtypes.cpp_name(dtype),
            dtypes.tensor_name(dtype),
        )


def _message(contract: Contract, arguments: Mapping[str, Any], found: DType, expected: DType | None = None) -> str:
    spellings = {
        name: _Spelling(dtype) for name, argument in arguments.items() for dtype in list(_dtypes(argument))[:1]
    }
    spellings["found"] = _Spelling(found)
    if contract.message:
        return contract.message.format(**spellings)
    assert expected is not None, "a demand on one operand has a message"
    return f"expected scalar type {dtypes.scalar_name(expected)} but found {dtypes.scalar_name(found)}"


def _promotion(node: Node, op: Op, arguments: Mapping[str, Any]) -> Violation | None:
    """What the promotion itself refuses: dtypes that don't promote, and a result that its target can't hold."""
    if op.promotion not in PROMOTING:
        return None
    operands = list(forms(arguments, numeric_names(node, op)))
    try:
        dtypes.result_type(operands)
    except RuntimeError as refusal:
        return Violation(tuple((n, d) for n, d in _named(arguments, node, op)), str(refusal))
    target = _target(node, op, arguments)
    if target is None or op.promotion == "promote_to_bool":
        return None
    promoted = promoted_dtype(node, op)
    if can_cast(promoted, arguments[target].dtype):
        return None
    found, desired = dtypes.scalar_name(promoted), dtypes.scalar_name(arguments[target].dtype)
    return Violation(
        tuple(_named(arguments, node, op)), f"result type {found} can't be cast to the desired output type {desired}"
    )


def _named(arguments: Mapping[str, Any], node: Node, op: Op) -> Iterator[tuple[str, DType]]:
    numeric = numeric_names(node, op)
    for name, argument in arguments.items():
        if name in numeric:
            for dtype in _dtypes(argument):
                yield name, dtype


def _target(node: Node, op: Op, arguments: Mapping[str, Any]) -> str | None:
    """The argument whose dtype the result is converted to: the one written in place, or the row's return."""
    for parameter in schema(node.op).parameters:
        if parameter.written and isinstance(arguments.get(parameter.name), Value):
            return parameter.name
    named = op.returns[0] if op.returns else ""
    return named if isinstance(arguments.get(named), Value) else None


def can_cast(source: DType, target: DType) -> bool:
    """Whether PyTorch lets a result of dtype `source` be written into `target` (c10::canCast)."""
    if source.category == "complex" and target.category != "complex":
        return False
    if source.is_floating and target.category in ("bool", "integral"):
        return False
    return source.category == "bool" or target.category != "bool"

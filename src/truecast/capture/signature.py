"""What decides the dtypes of an operation's results, as a hashable key, and answers remembered by it.

Both questions the tape asks about dtypes (which contract is broken, in which dtype a write is computed) depend on
the operands' dtypes, on which tensors have dimensions and on the types of the numbers, and on nothing else.
"""

from __future__ import annotations

from typing import Any

import torch

from truecast import dtypes, ops
from truecast.capture import torch_seam
from truecast.capture.functional import FunctionalForm
from truecast.dtypes import DType
from truecast.graph import Node, Token, Value
from truecast.ops import contracts
from truecast.ops.agreement import agreeing_casts, with_casts
from truecast.ops.schema import overload

_COMPUTED: dict[Any, tuple[DType, ...] | None] = {}
_VIOLATIONS: dict[Any, contracts.Violation | None] = {}


def signature(argument: Any) -> Any:
    """Dtypes, whether a tensor has dimensions, types of numbers, dtype arguments and strings."""
    if isinstance(argument, Value):
        return (argument.dtype, bool(argument.shape))
    if isinstance(argument, tuple):
        return tuple([signature(a) for a in argument])
    return argument if isinstance(argument, DType | str) else type(argument)


def violation(op: str, row: ops.Op, args: Any, kwargs: Any) -> contracts.Violation | None:
    """The dtype contract that a call of `op` breaks, or None."""
    key = (op, signature(args), signature(kwargs))
    if key not in _VIOLATIONS:
        _VIOLATIONS[key] = contracts.check(Node(op, args, kwargs, ()), row)
    return _VIOLATIONS[key]


def casts_for(op: str, row: ops.Op, args: Any, kwargs: Any) -> dict[str, DType]:
    """The casts, by schema argument, with which a call of `op` that breaks a contract breaks none; {} where no casts
    do."""
    casts, broken = agreeing_casts(Node(op, args, kwargs, ()), row)
    return {} if broken is not None else dict(casts)


def computed_dtypes(form: FunctionalForm, args: Any, kwargs: Any) -> tuple[DType, ...] | None:
    """The dtypes in which a functional form returns new contents, before they are converted to those of the
    tensors that are written. None where PyTorch has no meta kernel to ask: such operations (random fills) return
    the dtype they are given."""
    key = (form.op, signature(args), signature(kwargs))
    if key not in _COMPUTED:
        row = ops.lookup(form.op)
        if row is not None and violation(form.op, row, args, kwargs) is not None:  # it ran on cast operands
            node = Node(form.op, args, kwargs, ())
            cast = with_casts(node, agreeing_casts(node, row)[0])
            args, kwargs = cast.args, cast.kwargs
        _COMPUTED[key] = _ask_meta(form, args, kwargs)
    return _COMPUTED[key]


def _ask_meta(form: FunctionalForm, args: Any, kwargs: Any) -> tuple[DType, ...] | None:
    with torch_seam.without_modes():
        try:
            given = {k: _meta(v) for k, v in kwargs if not isinstance(v, Token)}
            result = overload(form.op)(*map(_meta, args), **given)
        except NotImplementedError:
            return None
    leaves = flat(result) if isinstance(result, list | tuple) else [result]
    return tuple(dtypes.of(t.dtype) for t in leaves[form.first_written :])


def _meta(argument: Any) -> Any:
    if isinstance(argument, Value):
        return torch.empty(argument.shape, dtype=dtypes.torch_dtype(argument.dtype), device="meta")
    if isinstance(argument, tuple):
        return [_meta(a) for a in argument]
    return dtypes.torch_dtype(argument) if isinstance(argument, DType) else argument


def flat(result: Any) -> list[Any]:
    """The tensors (and undefined ones, None) that an operation returned, in order."""
    leaves: list[Any] = []
    for item in result:
        if isinstance(item, list | tuple):
            leaves += item
        elif item is None or isinstance(item, torch.Tensor):
            leaves.append(item)
    return leaves

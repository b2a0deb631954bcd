"""Tensors whose contents the program alone decides, and questions about contents that can therefore be answered.

A mask from `torch.ones(n, n).tril()`, the lengths in `torch.full((batch,), n)`: a program recorded without data can
still ask what is in them, since every run finds the same. What depends on an input stays refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from truecast import ops
from truecast.capture import torch_seam
from truecast.capture.decompose import concrete
from truecast.graph import Value, values_in
from truecast.ops.schema import overload, schema

_LIMIT = 2**22  # elements computed to answer one question; beyond, it is a computation and not a mask
_UNDEFINED = ("empty", "new_empty")  # contents that nobody decides

Record = tuple[Any, ...]


class Contents:
    """records: (op, args, kwargs, outputs, position) of every operation so far, growing; literal(name): the contents of
    the tensor of Python numbers that an input stands for, or None."""

    def __init__(self, records: Sequence[Record], literal: Callable[[str], torch.Tensor | None]) -> None:
        self._records, self._literal = records, literal
        self._makers: dict[str, int] = {}  # value name -> the record that made it
        self._indexed = 0

    def of(self, values: Sequence[Value]) -> dict[str, torch.Tensor] | None:
        """The contents of `values` by name, or None if one of them depends on more than the program."""
        self._index()
        found: dict[str, torch.Tensor] = {}
        needed = self._needed(values, found)
        if needed is None:
            return None
        for number in sorted(needed):
            op, args, kwargs, outputs, _ = self._records[number]
            result = run(op, args, kwargs, found)
            leaves = [result] if isinstance(result, torch.Tensor) else list(result)
            found |= {v.name: tensor for v, tensor in zip(outputs, leaves, strict=True) if v is not None}
        return {value.name: found[value.name] for value in values}

    def _index(self) -> None:
        for number in range(self._indexed, len(self._records)):
            for value in self._records[number][3]:
                if value is not None:
                    self._makers[value.name] = number
        self._indexed = len(self._records)

    def _needed(self, values: Sequence[Value], found: dict[str, torch.Tensor]) -> set[int] | None:
        """The records to run; literals go to `found`."""
        needed: set[int] = set()
        pending, size = list(values), 0
        while pending:
            value = pending.pop()
            number = self._makers.get(value.name)
            if value.name in found or number in needed:
                continue
            if number is None:
                literal = self._literal(value.name)
                if literal is None:
                    return None
                found[value.name] = literal
                continue
            op, args, kwargs, outputs, _ = self._records[number]
            size += sum(v.size for v in outputs if v is not None)
            if size > _LIMIT or not _decided(op):
                return None
            needed.add(number)
            pending += [*values_in(args), *values_in(tuple(v for _, v in kwargs))]
        return needed


def run(op: str, args: Any, kwargs: Any, contents: Mapping[str, torch.Tensor]) -> Any:
    """What an operation returns, computed by PyTorch on the contents of its operands."""
    tensors = iter([contents[v.name] for v in (*values_in(args), *values_in(tuple(v for _, v in kwargs)))])
    types = {p.name: p.type for p in schema(op).parameters}
    given = [concrete(a, tensors, p.type) for a, p in zip(args, schema(op).parameters, strict=False)]
    named = {k: concrete(a, tensors, types[k]) for k, a in kwargs}
    with torch_seam.without_modes(), torch.no_grad():
        return overload(op)(*given, **named)


def _decided(op: str) -> bool:
    """Whether an operation's results are a function of its arguments."""
    row = ops.lookup(op)
    if row is None or row.kind == "random" or op.split(".")[1].startswith(_UNDEFINED):
        return False
    return torch.Tag.nondeterministic_seeded not in overload(op).tags


def by_position(
    func: Any,
    args: tuple[Any, ...],
    contents: Callable[[torch.Tensor], torch.Tensor | None],
    constant: Callable[[torch.Tensor], torch.Tensor],
) -> tuple[Any, tuple[Any, ...]] | None:
    """A selection by masks with known contents as one by positions; None for any other call.

    contents: what is in a tensor, None if unknown. constant: a tensor of the program with these contents.
    """
    if func is torch.ops.aten.masked_select.default:
        shape = torch.broadcast_shapes(*(t.shape for t in args))
        source, indices = args[0].expand(shape), [args[1].expand(shape)]
    elif func is torch.ops.aten.index.Tensor:
        source, indices = args
    else:
        return None
    positions: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            positions.append(index)
            continue
        known = contents(index)
        if known is None or not known.dim():
            return None
        with torch_seam.without_modes():
            found = known.nonzero(as_tuple=True)
        positions += [constant(position) for position in found]
    return torch.ops.aten.index.Tensor, (source, positions)

"""Which Python numbers of a call may change without another program (law N6), and for which values.

The ops table says it: the numbers of elementwise operations, and the arguments that a row names with a range. A number
outside of its range is part of the call, which is checked anew for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from truecast.capture.device.tensor import PjrtTensor
from truecast.ops import lookup
from truecast.ops.schema import schema
from truecast.ops.table import Range

# Whether a number may change: the number, and the call's positional arguments.
InRange = Callable[[Any, tuple[Any, ...]], bool]

_FARTHEST = 2.0**14  # twice it is a number of every dtype in which PyTorch draws from an interval


def changing(op: str) -> tuple[frozenset[Any], dict[Any, InRange]]:
    """Positions and names of the arguments whose numbers may change, and of those that may while they are in range."""
    row = lookup(op)
    if row is None:
        return frozenset(), {}
    ranges = dict(row.numbers)
    free: set[Any] = set()
    ranged: dict[Any, InRange] = {}
    for index, parameter in enumerate(schema(op).parameters):
        places = [parameter.name] if parameter.keyword_only else [index, parameter.name]
        kind = ranges.get(parameter.name)
        if kind is not None and parameter.cls != "tensor":
            if kind == "any":
                free.update(places)
            else:
                ranged.update(dict.fromkeys(places, _RANGES[kind]))
            continue
        numeric = row.numeric is None or parameter.name in row.numeric
        if row.kind == "elementwise" and numeric and parameter.cls in ("scalar", "tensor"):
            free.update(places)  # y * 2.0 is mul.Tensor with a number for a tensor
    return frozenset(free), ranged


def _real(condition: Callable[[float], bool]) -> InRange:
    return lambda number, args: type(number) in (int, float) and condition(number)


def _end(number: Any, args: tuple[Any, ...]) -> bool:
    """Whether the call's two numbers are such an interval: both ends may change, or neither."""
    if len(args) != 3 or not all(type(end) in (int, float) for end in args[1:]):
        return False
    low, high = args[1:]
    return -_FARTHEST <= low <= high <= _FARTHEST


def _held(number: Any, args: tuple[Any, ...]) -> bool:
    """Whether the first operand's dtype holds the number, and not as a subnormal, which would be rounded twice."""
    if type(number) not in (int, float) or not args or type(args[0]) is not PjrtTensor:
        return False
    dtype = args[0]._meta.dtype
    if dtype.is_floating_point:
        if dtype.itemsize == 1:
            return False
        held = torch.finfo(dtype)
        return number == 0 or not math.isfinite(number) or held.smallest_normal <= abs(number) <= held.max
    if dtype.is_complex or dtype is torch.bool or type(number) is not int:
        return False
    whole = torch.iinfo(dtype)
    return whole.min <= number <= min(whole.max, torch.iinfo(torch.int64).max)


_RANGES: dict[Range, InRange] = {
    "nonzero": _real(lambda number: number != 0),
    "positive": _real(lambda number: number > 0),
    "not_negative": _real(lambda number: number >= 0),
    "chance": _real(lambda number: 0 <= number <= 1),
    "inside": _real(lambda number: 0 < number < 1),
    "end": _end,
    "held": _held,
}

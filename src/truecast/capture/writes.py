"""Writes whose new contents are plainer than the functional form that PyTorch has for them.

Each function gets the written tensor's present value (for its dtype and shape) and the operation's arguments, and
returns the new contents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from truecast.capture.aliasing import Emit
from truecast.graph import Argument, Value


def copied(emit: Emit[Value], target: Value, args: tuple[Argument, ...]) -> Value:
    """copy_: the source, converted and broadcast; the source itself where neither is needed."""
    source = args[1]
    if source.dtype is not target.dtype:
        source = emit("aten._to_copy.default", (source,), (("dtype", target.dtype),), target.dtype, source.shape)
    if source.shape == target.shape:
        return source
    return emit("aten.expand.default", (source, target.shape), (), target.dtype, target.shape)


def filled(emit: Emit[Value], target: Value, args: tuple[Argument, ...]) -> Value:
    """fill_: a number, or the 0-dim tensor."""
    if isinstance(args[1], Value):
        return copied(emit, target, args)
    dtype: tuple[tuple[str, Any], ...] = (("dtype", target.dtype),)
    return emit("aten.full.default", (target.shape, args[1]), dtype, target.dtype, target.shape)


def zeroed(emit: Emit[Value], target: Value, args: tuple[Argument, ...]) -> Value:
    """zero_"""
    category = target.dtype.category
    zero = False if category == "bool" else 0 if category == "integral" else 0.0
    return filled(emit, target, (target, zero))


DIRECT: dict[str, Callable[[Emit[Value], Value, tuple[Argument, ...]], Value]] = {
    "aten.copy_": copied,
    "aten.fill_": filled,
    "aten.zero_": zeroed,
}

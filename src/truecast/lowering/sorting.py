"""Sorting, selecting by rank, and searching in what is sorted.

Every order is PyTorch's: NaN counts as greater than all numbers, -0.0 equals 0.0, and equal elements keep their
order (PyTorch promises that for `stable=True` only). Comparisons are exact in any dtype, so nothing here rounds.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from truecast import dtypes
from truecast.lowering.context import Array, Context
from truecast.lowering.indexing import along, data_dependent
from truecast.lowering.registry import lowers
from truecast.lowering.shape import axis_of


def ordered(self: Array, axis: int, descending: bool = False) -> tuple[Array, Array]:
    """The elements in order along `axis`, and the position that each came from."""
    position = lax.broadcasted_iota(jnp.int32, self.shape, axis)
    if not descending:
        values, source = lax.sort((self, position), dimension=axis, num_keys=1, is_stable=True)
        return values, lax.convert_element_type(source, jnp.int64)
    # Ascending order of the reversed elements, read backwards: equal elements keep their order.
    reversed_both = (lax.rev(self, (axis,)), lax.rev(position, (axis,)))
    values, source = lax.sort(reversed_both, dimension=axis, num_keys=1, is_stable=True)
    return lax.rev(values, (axis,)), lax.convert_element_type(lax.rev(source, (axis,)), jnp.int64)


def _lined(self: Array, dim: int) -> tuple[Array, int]:
    """`self` with at least one dim, and the axis that `dim` means."""
    return lax.reshape(self, self.shape or (1,)), axis_of(dim, self.ndim)


@lowers("sort")
def sort(ctx: Context, self: Array, dim: int, descending: bool, **_: Any) -> tuple[Array, ...]:
    x, axis = _lined(self, dim)
    return tuple(lax.reshape(r, ctx.shape) for r in ordered(x, axis, descending))


@lowers("topk")
def topk(ctx: Context, self: Array, k: int, dim: int, largest: bool, **_: Any) -> tuple[Array, ...]:
    x, axis = _lined(self, dim)
    return tuple(lax.reshape(lax.slice_in_dim(r, 0, k, 1, axis), ctx.shape) for r in ordered(x, axis, largest))


@lowers("kthvalue")
def kthvalue(ctx: Context, self: Array, k: int, dim: int, keepdim: bool) -> tuple[Array, ...]:
    x, axis = _lined(self, dim)
    return tuple(lax.reshape(lax.slice_in_dim(r, k - 1, k, 1, axis), ctx.shape) for r in ordered(x, axis))


@lowers("median.dim")
def median_dim(ctx: Context, self: Array, dim: int, keepdim: bool) -> tuple[Array, ...]:
    return _median(ctx, *_lined(self, dim), skip_nan=False)


@lowers("nanmedian.dim")
def nanmedian_dim(ctx: Context, self: Array, dim: int, keepdim: bool) -> tuple[Array, ...]:
    return _median(ctx, *_lined(self, dim), skip_nan=True)


@lowers("median.default")
def median(ctx: Context, self: Array) -> Array:
    return _median_of_all(ctx, self, skip_nan=False)


@lowers("nanmedian.default")
def nanmedian(ctx: Context, self: Array) -> Array:
    return _median_of_all(ctx, self, skip_nan=True)


def _median_of_all(ctx: Context, self: Array, skip_nan: bool) -> Array:
    if self.size == 0:
        floating = dtypes.of(self.dtype).is_floating
        return lax.full((), math.nan if floating else jnp.iinfo(self.dtype).min, self.dtype)
    return _median(ctx, lax.reshape(self, (self.size,)), 0, skip_nan)[0]


def _median(ctx: Context, x: Array, axis: int, skip_nan: bool) -> tuple[Array, Array]:
    """The lower median and its position; where a NaN counts, the first NaN."""
    values, source = ordered(x, axis)
    extent = x.shape[axis]
    numbers = lax.reduce_sum(lax.convert_element_type(lax.eq(values, values), jnp.int64), (axis,))
    half = lax.full_like(numbers, (extent - 1) // 2)
    one, two = lax.full_like(numbers, 1), lax.full_like(numbers, 2)
    if skip_nan:
        rank = lax.max(lax.div(lax.sub(numbers, one), two), lax.full_like(numbers, 0))
    else:  # NaNs stand behind the numbers: the first one is at `numbers`
        rank = lax.select(lax.lt(numbers, lax.full_like(numbers, extent)), numbers, half)
    at = lax.expand_dims(rank, (axis,))
    return lax.reshape(along(values, at, axis), ctx.shape), lax.reshape(along(source, at, axis), ctx.shape)


@lowers("mode")
def mode(ctx: Context, self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The most frequent element, the least one of several, at its last position. No NaN equals another and all
    numbers come before NaN; where one is present, eager's own answer depends on how its sort happens to go."""
    x, axis = _lined(self, dim)
    values, source = ordered(x, axis)
    position = lax.broadcasted_iota(jnp.int64, x.shape, axis)
    before = lax.slice_in_dim(values, 0, x.shape[axis] - 1, 1, axis)
    starts = lax.ne(lax.slice_in_dim(values, 1, x.shape[axis], 1, axis), before)
    first = lax.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), True, jnp.bool_)
    starts = lax.concatenate([first, starts], axis)
    run = lax.cummax(lax.select(starts, position, lax.full_like(position, 0)), axis)
    longest = lax.argmax(lax.sub(position, run), axis, jnp.int64)
    at = lax.expand_dims(longest, (axis,))
    return lax.reshape(along(values, at, axis), ctx.shape), lax.reshape(along(source, at, axis), ctx.shape)


@lowers("repeat_interleave.Tensor")
def repeat_interleave(ctx: Context, repeats: Array, output_size: int | None) -> Array:
    if output_size is None:
        raise data_dependent(ctx, "pass output_size=, the sum of `repeats`")
    ends = lax.cumsum(repeats)
    return bisect(lax.expand_dims(ends, (0,)), lax.expand_dims(lax.iota(ends.dtype, output_size), (0,)), True)[0]


def bisect(ordered: Array, wanted: Array, right: bool) -> Array:
    """Where each of `wanted` [batch, m] would stand in `ordered` [batch, n], by PyTorch's own bisection: a NaN
    stands after everything, and what isn't sorted gives PyTorch's answer too. int64 [batch, m]."""
    extent = ordered.shape[-1]
    low = lax.full(wanted.shape, 0, jnp.int64)
    high = lax.full(wanted.shape, extent, jnp.int64)
    for _ in range(extent.bit_length()):
        middle = lax.add(low, lax.shift_right_logical(lax.sub(high, low), lax.full_like(low, 1)))
        at = along(ordered, lax.min(middle, lax.full_like(middle, max(extent - 1, 0))), 1)
        before = lax.bitwise_not(lax.gt(at, wanted) if right else lax.ge(at, wanted))
        before = lax.bitwise_and(before, lax.lt(low, high))
        after = lax.bitwise_and(lax.bitwise_not(before), lax.lt(low, high))
        low = lax.select(before, lax.add(middle, lax.full_like(middle, 1)), low)
        high = lax.select(after, middle, high)
    return low


@lowers("searchsorted")
def searchsorted(
    ctx: Context,
    sorted_sequence: Array,
    self: Array,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Array | None,
) -> Array:
    if sorter is not None:
        sorted_sequence = along(sorted_sequence, sorter, sorted_sequence.ndim - 1)
    return _search(ctx, sorted_sequence, self, right or side == "right")


@lowers("bucketize")
def bucketize(ctx: Context, self: Array, boundaries: Array, out_int32: bool, right: bool) -> Array:
    return _search(ctx, boundaries, self, right)


def _search(ctx: Context, ordered: Array, wanted: Array, right: bool) -> Array:
    batch = math.prod(ordered.shape[:-1])
    shape = (batch, math.prod(ctx.shape) // batch if batch else 0)
    found = bisect(lax.reshape(ordered, (batch, ordered.shape[-1])), lax.reshape(wanted, shape), right)
    return lax.convert_element_type(lax.reshape(found, ctx.shape), ctx.dtype)


@lowers("isin")
def isin(ctx: Context, invert: bool, **operands: Any) -> Array:
    elements = operands.get("elements", operands.get("element"))
    tested = operands.get("test_elements", operands.get("test_element"))
    assert elements is not None and tested is not None
    if tested.size == 0:
        return lax.full(ctx.shape, invert, jnp.bool_)
    ordered = lax.reshape(lax.sort(lax.reshape(tested, (tested.size,))), (1, tested.size))
    wanted = lax.reshape(elements, (1, elements.size))
    place = lax.min(bisect(ordered, wanted, False), lax.full(wanted.shape, tested.size - 1, jnp.int64))
    found = lax.reshape(lax.eq(along(ordered, place, 1), wanted), ctx.shape)
    return lax.bitwise_not(found) if invert else found

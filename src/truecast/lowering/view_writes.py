"""Writing through a view, and the backwards of views: a piece put back where the view took it from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers
from truecast.lowering.shape import axis_of, bounds, check_extent, flat_positions, place_diagonal, spread


def _overwritten(self: Array, placed: Array, where_placed: Array) -> Array:
    return lax.select(where_placed, placed, self)


def _ones(x: Array) -> Array:
    return lax.full(x.shape, True, jnp.bool_)


@lowers("slice_scatter")
def slice_scatter(
    ctx: Context, self: Array, src: Array, dim: int, start: int | None, end: int | None, step: int
) -> Array:
    axis = axis_of(dim, self.ndim)
    first, _ = bounds(start, end, self.shape[axis])
    src = ctx.stored(src, self)
    if step == 1:
        return lax.dynamic_update_slice(self, src, [first if i == axis else 0 for i in range(self.ndim)])
    return _overwritten(self, *(spread(x, axis, self.shape[axis], first, step) for x in (src, _ones(src))))


@lowers("select_scatter")
def select_scatter(ctx: Context, self: Array, src: Array, dim: int, index: int) -> Array:
    axis = axis_of(dim, self.ndim)
    src = lax.expand_dims(ctx.stored(src, self), (axis,))
    first = index % self.shape[axis]
    return lax.dynamic_update_slice(self, src, [first if i == axis else 0 for i in range(self.ndim)])


@lowers("diagonal_scatter")
def diagonal_scatter(ctx: Context, self: Array, src: Array, offset: int, dim1: int, dim2: int) -> Array:
    src = ctx.stored(src, self)
    return _overwritten(self, *(place_diagonal(x, self.shape, offset, dim1, dim2) for x in (src, _ones(src))))


@lowers("as_strided_scatter")
def as_strided_scatter(
    ctx: Context, self: Array, src: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> Array:
    if math.prod(size) == 0:
        return self
    check_extent(ctx, self, size, stride, storage_offset or 0)
    positions = flat_positions(size, stride, storage_offset or 0)
    flat = lax.reshape(self, (self.size,)).at[positions].set(ctx.stored(src, self), mode="promise_in_bounds")
    return lax.reshape(flat, self.shape)


@lowers("slice_backward")
def slice_backward(
    ctx: Context, grad_output: Array, input_sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Array:
    axis = axis_of(dim, len(input_sizes))
    return spread(grad_output, axis, input_sizes[axis], bounds(start, end, input_sizes[axis])[0], step)


@lowers("select_backward")
def select_backward(ctx: Context, grad_output: Array, input_sizes: Sequence[int], dim: int, index: int) -> Array:
    axis = axis_of(dim, len(input_sizes))
    return spread(lax.expand_dims(grad_output, (axis,)), axis, input_sizes[axis], index % input_sizes[axis], 1)


@lowers("diagonal_backward")
def diagonal_backward(
    ctx: Context, grad_output: Array, input_sizes: Sequence[int], offset: int, dim1: int, dim2: int
) -> Array:
    return place_diagonal(grad_output, input_sizes, offset, dim1, dim2)

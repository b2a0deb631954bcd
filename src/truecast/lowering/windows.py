"""Padding, sliding windows and pixel shuffles: movement whose pieces repeat or overlap.

Each backward is the transpose of its forward, taken in the accumulate dtype (law N4), since a source element
that was copied several times gets the sum of its copies' gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers, register
from truecast.lowering.shape import axis_of, zeros


def transposed(ctx: Context, forward: Callable[[Array], Array], shape: Sequence[int], grad: Array) -> Array:
    """The gradient of a linear `forward`'s argument of `shape`, summed in the accumulate dtype."""
    grad = ctx.accumulated(grad)
    if 0 in shape or grad.size == 0:
        return zeros(shape, grad)
    (result,) = jax.linear_transpose(forward, jax.ShapeDtypeStruct(tuple(shape), grad.dtype))(grad)
    return result


# --------------------------------------------------------------------------------------------------------- padding


@lowers("constant_pad_nd")
def constant_pad_nd(ctx: Context, self: Array, pad: Sequence[int], value: float) -> Array:
    config = [(0, 0, 0)] * self.ndim
    for i in range(len(pad) // 2):
        config[self.ndim - 1 - i] = (pad[2 * i], pad[2 * i + 1], 0)
    return lax.pad(self, ctx.stored(value, self), config)


def _reflected(positions: np.ndarray, extent: int) -> np.ndarray:
    positions = np.abs(positions)
    return np.where(positions >= extent, 2 * (extent - 1) - positions, positions)


def _replicated(positions: np.ndarray, extent: int) -> np.ndarray:
    return np.clip(positions, 0, extent - 1)


def _padded(source: Callable[[np.ndarray, int], np.ndarray], padding: Sequence[int]) -> Callable[[Array], Array]:
    """Pads the last len(padding) / 2 axes; `source` says which element stands at each position outside."""

    def pad(x: Array) -> Array:
        for i in range(len(padding) // 2):
            axis = x.ndim - 1 - i
            left, right = padding[2 * i], padding[2 * i + 1]
            positions = source(np.arange(-left, x.shape[axis] + right), x.shape[axis])
            x = jnp.take(x, positions.astype(np.int32), axis=axis, mode="clip")
        return x

    return pad


for _name, _source in (("reflection_pad", _reflected), ("replication_pad", _replicated)):
    register(
        f"{_name}1d {_name}2d {_name}3d",
        lambda ctx, self, padding, source=_source: _padded(source, padding)(self),
    )
    register(
        f"{_name}1d_backward {_name}2d_backward {_name}3d_backward",
        lambda ctx, grad_output, self, padding, source=_source: transposed(
            ctx, _padded(source, padding), self.shape, grad_output
        ),
    )


# --------------------------------------------------------------------------------------------------------- windows


def windows(self: Array, dim: int, size: int, step: int) -> Array:
    """Windows of `size` along `dim`, `step` apart: dim counts the windows, a last axis walks through one."""
    if self.ndim == 0:
        return lax.slice(lax.reshape(self, (1,)), (0,), (size,))
    axis = axis_of(dim, self.ndim)
    count = (self.shape[axis] - size) // step + 1
    if size == step:  # they don't overlap: a reshape
        whole = lax.slice_in_dim(self, 0, count * size, 1, axis)
        split = lax.reshape(whole, (*self.shape[:axis], count, size, *self.shape[axis + 1 :]))
        return jnp.moveaxis(split, axis + 1, -1)
    positions = np.arange(count)[:, None] * step + np.arange(size)[None, :]
    taken = jnp.take(self, positions.astype(np.int32), axis=axis, mode="clip")
    return jnp.moveaxis(taken, axis + 1, -1)


@lowers("unfold unfold_copy")
def unfold(ctx: Context, self: Array, dimension: int, size: int, step: int) -> Array:
    return windows(self, dimension, size, step)


@lowers("unfold_backward")
def unfold_backward(ctx: Context, grad_in: Array, input_sizes: Sequence[int], dim: int, size: int, step: int) -> Array:
    return transposed(ctx, lambda x: windows(x, dim, size, step), input_sizes, grad_in)


Pair = Sequence[int]


def _pair(numbers: Pair) -> tuple[int, int]:
    return (numbers[0], numbers[-1])


def _columns(x: Array, kernel_size: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Array:
    """[..., C, H, W] to [..., C * kernel elements, positions]: one strided slice per kernel element."""
    *lead, channels, _, _ = x.shape
    kernel, dilation, padding, stride = (_pair(p) for p in (kernel_size, dilation, padding, stride))
    edges = [(0, 0, 0)] * (len(lead) + 1) + [(p, p, 0) for p in padding]
    x = lax.pad(x, lax.full((), 0, x.dtype), edges)
    counts = [(x.shape[x.ndim - 2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    pieces = []
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            first = (row * dilation[0], column * dilation[1])
            piece = x
            for i in range(2):
                last = first[i] + (counts[i] - 1) * stride[i] + 1
                piece = lax.slice_in_dim(piece, first[i], last, stride[i], x.ndim - 2 + i)
            pieces.append(lax.reshape(piece, (*lead, channels, 1, counts[0] * counts[1])))
    together = lax.concatenate(pieces, len(lead) + 1)
    return lax.reshape(together, (*lead, channels * len(pieces), counts[0] * counts[1]))


@lowers("im2col")
def im2col(ctx: Context, self: Array, kernel_size: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Array:
    if 0 in ctx.shape:
        return zeros(ctx.shape, self)
    return _columns(self, kernel_size, dilation, padding, stride)


@lowers("col2im")
def col2im(
    ctx: Context, self: Array, output_size: Pair, kernel_size: Pair, dilation: Pair, padding: Pair, stride: Pair
) -> Array:
    return transposed(ctx, lambda x: _columns(x, kernel_size, dilation, padding, stride), ctx.shape, self)


# -------------------------------------------------------------------------------------------------- pixels, channels


@lowers("pixel_shuffle")
def pixel_shuffle(ctx: Context, self: Array, upscale_factor: int) -> Array:
    *lead, channels, height, width = self.shape
    r, n = upscale_factor, len(lead)
    split = lax.reshape(self, (*lead, channels // (r * r), r, r, height, width))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return lax.reshape(lax.transpose(split, order), ctx.shape)


@lowers("pixel_unshuffle")
def pixel_unshuffle(ctx: Context, self: Array, downscale_factor: int) -> Array:
    *lead, channels, height, width = self.shape
    r, n = downscale_factor, len(lead)
    split = lax.reshape(self, (*lead, channels, height // r, r, width // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return lax.reshape(lax.transpose(split, order), ctx.shape)


@lowers("channel_shuffle")
def channel_shuffle(ctx: Context, self: Array, groups: int) -> Array:
    batch, channels, *rest = self.shape
    split = lax.reshape(self, (batch, groups, channels // groups, *rest))
    order: tuple[Any, ...] = (0, 2, 1, *range(3, split.ndim))
    return lax.reshape(lax.transpose(split, order), ctx.shape)

"""Pooling whose windows follow from an output size, fractional max pooling, and max unpooling.

The window of output i of n over an extent e is [floor(i e / n), ceil((i + 1) e / n)): windows may overlap and
differ in length by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.division import divided
from truecast.lowering.pooling import lowest
from truecast.lowering.registry import lowers
from truecast.lowering.taps import Taps


def _rank(ctx: Context) -> int:
    return 3 if "3d" in ctx.node.op else 2


def _edges(extent: int, outputs: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    i = np.arange(outputs)
    return i * extent // outputs, -((-(i + 1) * extent) // outputs)


def _taps(extent: int, outputs: int) -> Taps:
    starts, ends = _edges(extent, outputs)
    return Taps.of([[(j, 1.0) for j in range(a, b)] for a, b in zip(starts, ends, strict=True)], extent)


def _area(spatial: Sequence[int], out: Sequence[int]) -> np.ndarray[Any, Any]:
    """[*out]: how many elements each window has."""
    area = np.ones(out, np.int64)
    for axis, (extent, outputs) in enumerate(zip(spatial, out, strict=True)):
        starts, ends = _edges(extent, outputs)
        shape = [1] * len(out)
        shape[axis] = -1
        area = area * (ends - starts).reshape(shape)
    return area


@lowers("_adaptive_avg_pool2d _adaptive_avg_pool3d")
def _adaptive_avg_pool(ctx: Context, self: Array, output_size: Sequence[int]) -> Array:
    rank = _rank(ctx)
    spatial, out = self.shape[-rank:], ctx.shape[-rank:]
    x = ctx.accumulated(self)
    for axis in range(rank):
        x = _taps(spatial[axis], out[axis]).apply(ctx, x, self.ndim - rank + axis)
    return divided(x, jnp.broadcast_to(jnp.asarray(_area(spatial, out).astype(x.dtype)), x.shape))


@lowers("_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward")
def _adaptive_avg_pool_backward(ctx: Context, grad_output: Array, self: Array) -> Array:
    rank = _rank(ctx)
    spatial, out = self.shape[-rank:], grad_output.shape[-rank:]
    grad = ctx.accumulated(grad_output)
    grad = grad / jnp.asarray(_area(spatial, out).astype(grad.dtype))
    for axis in range(rank):
        grad = _taps(spatial[axis], out[axis]).turned().apply(ctx, grad, self.ndim - rank + axis)
    return grad


@lowers("adaptive_max_pool2d adaptive_max_pool3d")
def _adaptive_max_pool(ctx: Context, self: Array, output_size: Sequence[int]) -> tuple[Array, Array]:
    rank = _rank(ctx)
    spatial, out = self.shape[-rank:], ctx.shape[-rank:]
    rows = self.reshape(math.prod(self.shape[:-rank]), *spatial)
    positions, valid = [], []
    for extent, outputs in zip(spatial, out, strict=True):
        taps = _taps(extent, outputs)
        positions.append(jnp.broadcast_to(jnp.asarray(taps.index), (rows.shape[0], *taps.index.shape)))
        valid.append(taps.valid)
    best, index = _max_of_windows(ctx, rows, positions, valid)
    return best.reshape(ctx.shape), index.reshape(ctx.shape)


def _max_of_windows(
    ctx: Context, rows: Array, positions: Sequence[Array], valid: Sequence[np.ndarray[Any, Any]]
) -> tuple[Array, Array]:
    """The maximum of each window and its flat index; the first of equal elements, the last NaN, as in eager.

    rows: [rows, *spatial]. Per spatial dim, positions: [rows, outputs, taps] and valid: [outputs, taps].
    """
    rank, count = len(positions), rows.shape[0]
    if count == 0:
        outputs = (0, *(p.shape[1] for p in positions))
        return lax.full(outputs, 0, rows.dtype), lax.full(outputs, 0, "int64")
    flat = rows.reshape(count, -1)
    # Dims of the windows: [rows, out 1 .. out n, taps 1 .. taps n].
    index: Any = jnp.zeros((), "int64")
    usable: Any = np.ones((), bool)
    for axis in range(rank):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = positions[axis].shape[1:]
        index = index * rows.shape[1 + axis] + positions[axis].reshape(count, *shape)
        usable = usable & valid[axis].reshape(shape)
    out = index.shape[1 : 1 + rank]
    index = index.reshape(count, *out, -1)
    usable = np.broadcast_to(usable, (*out, *(p.shape[2] for p in positions))).reshape(*out, -1)
    taken = jnp.take_along_axis(flat, index.reshape(count, -1), axis=1).reshape(index.shape)
    taken = jnp.where(usable, taken, ctx.constant(lowest(taken.dtype), taken))
    nan = (taken != taken) & usable
    first = jnp.argmax(jnp.where(usable, taken == jnp.max(taken, -1, keepdims=True), False), -1)
    last_nan = taken.shape[-1] - 1 - jnp.argmax(nan[..., ::-1], -1)
    tap = jnp.where(jnp.any(nan, -1), last_nan, first)[..., None]
    chosen = jnp.take_along_axis(taken, tap, -1)[..., 0]
    return chosen, jnp.take_along_axis(index, tap, -1)[..., 0]


@lowers("fractional_max_pool2d fractional_max_pool3d")
def _fractional_max_pool(
    ctx: Context, self: Array, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Array
) -> tuple[Array, Array]:
    """Windows of one size whose starts are drawn: start(i) = int((i + u) a) - int(u a), the last at the end."""
    rank = _rank(ctx)
    spatial = self.shape[-rank:]
    rows = self.reshape(math.prod(self.shape[:-rank]), *spatial)
    # There may be samples for more than the batch has.
    samples = ctx.accumulated(random_samples).reshape(-1, random_samples.shape[-1])[: rows.shape[0]]
    positions, valid = [], []
    for axis in range(rank):
        kernel, outputs, extent = kernel_size[axis], output_size[axis], spatial[axis]
        u = samples[:, axis if rank == 3 else 1 - axis, None]  # torch draws width before height, but time first
        last = extent - kernel
        steps = ctx.constant(last / (outputs - 1) if outputs > 1 else 0, u)
        i = lax.iota(u.dtype, outputs)[None]
        starts = lax.floor((i + u) * steps) - lax.floor(u * steps)
        whole = lax.convert_element_type(starts, "int64")
        whole = jnp.where(np.arange(outputs) == outputs - 1, last, whole)
        positions.append(whole[..., None] + jnp.arange(kernel, dtype="int64"))
        valid.append(np.ones((outputs, kernel), bool))
    best, index = _max_of_windows(ctx, rows, positions, valid)
    return best.reshape(ctx.shape), index.reshape(ctx.shape)


@lowers(
    "adaptive_max_pool2d_backward adaptive_max_pool3d_backward"
    " fractional_max_pool2d_backward fractional_max_pool3d_backward"
)
def _indexed_backward(ctx: Context, grad_output: Array, self: Array, indices: Array, **_: Any) -> Array:
    """Each output's gradient, added at the index its maximum came from."""
    rank = _rank(ctx)
    count = math.prod(self.shape[:-rank])
    outputs = (count, math.prod(grad_output.shape[-rank:]))
    grad = ctx.accumulated(grad_output).reshape(outputs)
    zeros = lax.full((count, math.prod(self.shape[-rank:])), 0, grad.dtype)
    row = jnp.arange(count)[:, None]
    return zeros.at[row, indices.reshape(outputs)].add(grad).reshape(self.shape)


@lowers("max_unpool2d max_unpool3d")
def _max_unpool(ctx: Context, self: Array, indices: Array, output_size: Sequence[int], **_: Any) -> Array:
    rank = _rank(ctx)
    count = math.prod(self.shape[:-rank])
    zeros = lax.full((count, math.prod(ctx.shape[-rank:])), 0, self.dtype)
    row = jnp.arange(count)[:, None]
    places = (count, math.prod(self.shape[-rank:]))
    filled = zeros.at[row, indices.reshape(places)].set(self.reshape(places))
    return filled.reshape(ctx.shape)

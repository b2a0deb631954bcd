"""Sampling at positions that are data: grid_sampler_2d and _3d with their backwards, and affine grids.

Positions run from -1 to 1 over the input, per axis in the order x, y (, z), the reverse of the input's dims. The
backward is jax's own derivative of the forward below: the same gathers, transposed, summed in `accumulate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers, register

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2
_A = -0.75  # Keys' parameter, as in ATen


def _pixel(x: Array, extent: int, align_corners: bool) -> Array:
    """Positions in [-1, 1] as pixel coordinates."""
    one, half = lax.full((), 1, x.dtype), lax.full((), 0.5, x.dtype)
    if align_corners:
        return (x + one) * half * lax.full((), extent - 1, x.dtype)
    return ((x + one) * lax.full((), extent, x.dtype) - one) * half


def _clipped(x: Array, extent: int) -> Array:
    # minimum and maximum in this order: a NaN position reads pixel 0, as eager's clip does.
    low = jnp.where(x > 0, x, lax.full(x.shape, 0, x.dtype))
    return jnp.where(low < extent - 1, low, lax.full(x.shape, extent - 1, x.dtype))


def _reflected(x: Array, extent: int, align_corners: bool) -> Array:
    """Positions folded back into the input: around pixel centres with align_corners, else around its edges."""
    low, span = (0.0, extent - 1.0) if align_corners else (-0.5, float(extent))
    if span <= 0:
        return x * lax.full((), 0, x.dtype)
    shifted = lax.abs(x - lax.full((), low, x.dtype))
    length = lax.full((), span, x.dtype)
    extra = lax.rem(shifted, jnp.broadcast_to(length, shifted.shape))
    flips = lax.floor(shifted / length)
    even = lax.rem(flips, lax.full(flips.shape, 2, flips.dtype)) == 0
    return jnp.where(even, extra, length - extra) + lax.full((), low, x.dtype)


def _padded_position(x: Array, extent: int, padding_mode: int, align_corners: bool) -> Array:
    if padding_mode == _BORDER:
        return _clipped(x, extent)
    if padding_mode == _REFLECTION:
        return _clipped(_reflected(x, extent, align_corners), extent)
    return x


def _taps(
    p: Array, extent: int, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> tuple[Array, Array]:
    """p [N, points] in pixels -> the whole pixels that each position reads and their weights, [N, taps, points]."""

    def at(low: Array, offset: int) -> Array:
        return low + lax.full((), offset, low.dtype)

    if interpolation_mode == _BICUBIC:
        low = lax.floor(p)
        places = [_padded_position(at(low, i - 1), extent, padding_mode, align_corners) for i in range(4)]
        return jnp.stack(places, 1), jnp.stack(_cubic_weights(p - low), 1)
    p = _padded_position(p, extent, padding_mode, align_corners)
    if interpolation_mode == _NEAREST:
        nearest = lax.round(p, lax.RoundingMethod.TO_NEAREST_EVEN)[:, None]
        return nearest, lax.full_like(nearest, 1)
    low = lax.floor(p)
    return jnp.stack([low, at(low, 1)], 1), jnp.stack([at(low, 1) - p, p - low], 1)


def _sample(input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Array:
    spatial, rank, out = input.shape[2:], input.ndim - 2, grid.shape[1:-1]
    batch, count = grid.shape[0], math.prod(out)
    points = grid.reshape(batch, count, rank)
    # One gather for all taps: dims [N, taps of axis 1, .., taps of axis n, points].
    inside: Any = jnp.ones((), bool)
    flat: Any = jnp.zeros((), "int64")
    weight: Any = lax.full((), 1, input.dtype)
    for axis, extent in enumerate(spatial):
        pixel = _pixel(points[..., rank - 1 - axis], extent, align_corners)
        places, weights = _taps(pixel, extent, interpolation_mode, padding_mode, align_corners)
        shape = [batch, *[1] * rank, count]
        shape[1 + axis] = places.shape[1]
        within = (places >= 0) & (places <= extent - 1)
        safe = jnp.where(within, places, lax.full_like(places, 0))
        inside = inside & within.reshape(shape)
        flat = flat * extent + lax.convert_element_type(safe, "int64").reshape(shape)
        weight = weight * weights.reshape(shape)
    taps = math.prod(flat.shape[1:-1])
    rows = input.reshape(*input.shape[:2], math.prod(spatial))
    index = jnp.broadcast_to(flat.reshape(batch, 1, taps * count), (*rows.shape[:2], taps * count))
    taken = jnp.take_along_axis(rows, index, axis=2).reshape(*rows.shape[:2], taps, count)
    read = jnp.where(inside.reshape(batch, 1, taps, count), taken, lax.full_like(taken, 0))
    total = lax.reduce_sum(read * weight.reshape(batch, 1, taps, count), (2,))
    return total.reshape(*input.shape[:2], *out)


def _cubic_weights(t: Array) -> list[Array]:
    def number(value: float) -> Array:
        return lax.full((), value, t.dtype)

    def near(x: Array) -> Array:
        return ((number(_A + 2) * x - number(_A + 3)) * x) * x + number(1)

    def far(x: Array) -> Array:
        return ((number(_A) * x - number(5 * _A)) * x + number(8 * _A)) * x - number(4 * _A)

    one = number(1)
    return [far(t + one), near(t), near(one - t), far(one - t + one)]


@lowers("grid_sampler_2d grid_sampler_3d _grid_sampler_2d_cpu_fallback")
def _grid_sampler(
    ctx: Context, input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    return _sample(ctx.accumulated(input), ctx.accumulated(grid), interpolation_mode, padding_mode, align_corners)


@lowers("grid_sampler_2d_backward grid_sampler_3d_backward _grid_sampler_2d_cpu_fallback_backward")
def _grid_sampler_backward(
    ctx: Context,
    grad_output: Array,
    input: Array,
    grid: Array,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Any = (True, True),
) -> tuple[Array | None, ...]:
    def sample(x: Array, positions: Array) -> Array:
        return _sample(x, positions, interpolation_mode, padding_mode, align_corners)

    _, derivative = jax.vjp(sample, ctx.accumulated(input), ctx.accumulated(grid))
    grads = derivative(ctx.accumulated(grad_output))
    return tuple(g if wanted else None for g, wanted in zip(grads, ctx.wanted, strict=True))


def _affine_grid(ctx: Context, theta: Array, size: Sequence[int], align_corners: bool) -> Array:
    """theta [N, rank, rank + 1] applied to the homogeneous positions of an output of `size` [N, C, *spatial]."""
    spatial = size[2:]
    axes = []
    for axis, extent in reversed(list(enumerate(spatial))):
        shape = [1] * len(spatial)
        shape[axis] = -1
        axes.append(jnp.broadcast_to(_unit_positions(ctx, theta, extent, align_corners).reshape(shape), spatial))
    ones = lax.full(tuple(spatial), 1, theta.dtype)
    base = jnp.stack([*axes, ones], axis=-1).reshape(-1, len(spatial) + 1)
    product = ctx.dot(jnp.broadcast_to(base, (size[0], *base.shape)), theta, ((2,), (2,)), ((0,), (0,)))
    return product.reshape(ctx.shape)


def _unit_positions(ctx: Context, theta: Array, extent: int, align_corners: bool) -> Array:
    if extent <= 1:
        return lax.full((extent,), 0, theta.dtype)
    steps = jnp.arange(extent, dtype=theta.dtype) * ctx.constant(2 / (extent - 1), theta) - ctx.constant(1, theta)
    return steps if align_corners else steps * ctx.constant((extent - 1) / extent, theta)


register("affine_grid_generator", _affine_grid)

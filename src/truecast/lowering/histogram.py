"""Histograms: how many elements, or how much weight, falls between the edges of each bin.

Every bin holds its left edge; the last one also its right edge. What lies outside counts nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
import ml_dtypes
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.creation import spaced
from truecast.lowering.registry import lowers
from truecast.lowering.scattering import at_positions
from truecast.lowering.sorting import bisect


def _counted(ctx: Context, place: Array, weight: Array, bins: int) -> Array:
    """The sum of `weight` at each of `bins` places, held in `accumulate`; other places are dropped."""
    weight = ctx.accumulated(weight)
    return at_positions((place,), wrap=False)(lax.full((bins,), 0, weight.dtype), weight, "sum")


@lowers("histc")
def _histc(ctx: Context, self: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """Counts in `bins` equal parts of [min, max]; of the data's range if min == max. A 16-bit compute dtype rounds
    the distance, its multiple and the quotient, which decides the bin of what lies near an edge: in float32, each
    rounded there, since XLA:CPU widens a chain of 16-bit operations and drops the roundings between them."""
    x = lax.reshape(self, (self.size,))
    if x.dtype.itemsize == 2:
        x = lax.convert_element_type(x, jnp.float32)
    low, high = (_rounded(ctx, ctx.constant(edge, x)) for edge in (min, max))
    if min == max and x.size:
        low, high = jnp.min(x), jnp.max(x)
    one = ctx.constant(1, x)
    low, high = jnp.where(low == high, low - one, low), jnp.where(low == high, high + one, high)
    scaled = _rounded(ctx, _rounded(ctx, x - low) * _rounded(ctx, ctx.constant(bins, x)))
    place = lax.convert_element_type(_rounded(ctx, scaled / _rounded(ctx, high - low)), jnp.int64)
    place = jnp.where((x >= low) & (x <= high), jnp.minimum(place, bins - 1), bins)
    return _counted(ctx, place, ctx.fill(1, x), bins)


def _rounded(ctx: Context, x: Array) -> Array:
    """x, rounded to the compute dtype here and now (law N3)."""
    if ctx.compute == x.dtype:
        return x
    info = ml_dtypes.finfo(ctx.compute)
    return lax.reduce_precision(x, info.nexp, info.nmant)


def _edges(x: Array, count: int, bounds: Sequence[float] | None) -> Array:
    """`count` + 1 points over the range of x, or over `bounds`; a range of no extent reaches half to each side."""
    if bounds is not None:
        low, high = (lax.full((), b, x.dtype) for b in bounds)
    elif x.size:
        low, high = lax.reduce_min(x, (0,)), lax.reduce_max(x, (0,))
    else:
        low, high = lax.full((), 0, x.dtype), lax.full((), 1, x.dtype)
    half = lax.full((), 0.5, x.dtype)
    flat = lax.eq(low, high)
    low, high = lax.select(flat, lax.sub(low, half), low), lax.select(flat, lax.add(high, half), high)
    return lax.convert_element_type(spaced(low, high, count + 1), x.dtype)


def _columns(self: Array) -> Array:
    """[points, dims]"""
    return lax.reshape(self, (math.prod(self.shape[:-1]), self.shape[-1]))


def _range_of(bounds: Sequence[float] | None, column: int) -> Sequence[float] | None:
    return None if bounds is None else bounds[2 * column : 2 * column + 2]


def _all_edges(self: Array, bins: Sequence[int], bounds: Sequence[float] | None) -> list[Array]:
    points = _columns(self)
    return [_edges(points[:, column], count, _range_of(bounds, column)) for column, count in enumerate(bins)]


def _histogram(ctx: Context, points: Array, edges: Sequence[Array], weight: Array | None, density: bool) -> Array:
    """The weight of `points` [n, dims] between `edges`; as a density, per total weight and volume."""
    extents = tuple(e.shape[0] - 1 for e in edges)
    total = math.prod(extents)
    place = lax.full((points.shape[0],), 0, jnp.int64)
    inside = lax.full((points.shape[0],), True, jnp.bool_)
    for column, (edge, extent) in enumerate(zip(edges, extents, strict=True)):
        x = points[:, column]
        found = bisect(lax.expand_dims(edge, (0,)), lax.expand_dims(x, (0,)), right=True)[0] - 1
        place = place * extent + jnp.minimum(found, extent - 1)
        inside &= ~((x < edge[0]) | (edge[-1] < x))
    weights = ctx.fill(1, points[:, 0]) if weight is None else lax.reshape(weight, (weight.size,))
    counts = _counted(ctx, jnp.where(inside, place, total), weights, total)
    if density:
        counts = counts / lax.reduce_sum(counts, (0,))
    counts = lax.reshape(counts, extents)
    if density:
        for axis, edge in enumerate(edges):
            widths = ctx.accumulated(edge[1:] - edge[:-1])
            counts = counts / lax.broadcast_in_dim(widths, extents, (axis,))
    return counts


@lowers("histogram.bin_ct")
def _by_count(
    ctx: Context,
    self: Array,
    bins: int = 100,
    range: Sequence[float] | None = None,
    weight: Array | None = None,
    density: bool = False,
) -> tuple[Array, Array]:
    points = lax.reshape(self, (self.size, 1))
    edges = _edges(points[:, 0], bins, range)
    return _histogram(ctx, points, [edges], weight, density), edges


@lowers("histogram.bins_tensor")
def _by_edges(
    ctx: Context, self: Array, bins: Array, weight: Array | None = None, density: bool = False
) -> tuple[Array, Array]:
    return _histogram(ctx, lax.reshape(self, (self.size, 1)), [bins], weight, density), bins


@lowers("_histogramdd_bin_edges")
def _edges_of_all(
    ctx: Context, self: Array, bins: Sequence[int], range: Sequence[float] | None = None, **_: object
) -> list[Array]:
    return _all_edges(self, bins, range)


@lowers("_histogramdd_from_bin_cts")
def _from_counts(
    ctx: Context,
    self: Array,
    bins: Sequence[int],
    range: Sequence[float] | None = None,
    weight: Array | None = None,
    density: bool = False,
) -> Array:
    return _histogram(ctx, _columns(self), _all_edges(self, bins, range), weight, density)


@lowers("_histogramdd_from_bin_tensors")
def _from_edges(
    ctx: Context, self: Array, bins: Sequence[Array], weight: Array | None = None, density: bool = False
) -> Array:
    return _histogram(ctx, _columns(self), bins, weight, density)

"""Reductions of consecutive segments whose lengths are data: `segment_reduce` and its backward."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers
from truecast.lowering.scattering import at_positions
from truecast.lowering.sorting import bisect

# How elements of a segment join, and what an empty one gives where no `initial` is named.
_REDUCTIONS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "prod": ("prod", 1.0),
    "max": ("amax", -math.inf),
    "min": ("amin", math.inf),
}


class _Segments:
    """Which segment each row of [rows, inner] belongs to, for data [*batch, length, *inner] split along `axis`.

    count: how many segments there are in all batches; a row of none has this number.
    """

    def __init__(self, data: Array, lengths: Array | None, offsets: Array | None, axis: int) -> None:
        batch, length = math.prod(data.shape[:axis]), data.shape[axis]
        if offsets is None:
            assert lengths is not None, "eager demands lengths or offsets"
            ends = lax.cumsum(lengths, lengths.ndim - 1)
            offsets = lax.concatenate([lax.full_like(ends[..., :1], 0), ends], ends.ndim - 1)
        segments = offsets.shape[-1] - 1
        offsets = lax.reshape(offsets, (batch, segments + 1))
        position = lax.broadcasted_iota(offsets.dtype, (batch, length), 1)
        own = bisect(offsets, position, right=True) - 1
        first = lax.broadcasted_iota(own.dtype, own.shape, 0) * segments
        self.count = batch * segments
        place = jnp.where((own >= 0) & (own < segments), first + own, self.count)
        self.place = lax.reshape(place, (batch * length,))
        self.inner = math.prod(data.shape[axis + 1 :])

    def rows(self, x: Array) -> Array:
        return lax.reshape(x, (x.size // self.inner if self.inner else 0, self.inner))

    def reduced(self, rows: Array, how: str, start: Any) -> Array:
        """[count, inner]"""
        return at_positions((self.place,), wrap=False)(lax.full((self.count, self.inner), start, rows.dtype), rows, how)

    def spread(self, by_segment: Array) -> Array:
        """[count, inner] -> each row's own segment; 0 for a row of none."""
        return by_segment.at[self.place].get(mode="fill", fill_value=0, wrap_negative_indices=False)


@lowers("segment_reduce")
def _segment_reduce(
    ctx: Context,
    data: Array,
    reduce: str,
    lengths: Array | None = None,
    indices: Array | None = None,
    offsets: Array | None = None,
    axis: int = 0,
    initial: Any = None,
    **_: Any,
) -> Array:
    if 0 in ctx.shape:
        return lax.full(ctx.shape, 0, data.dtype)
    segments = _Segments(data, lengths, offsets, axis % data.ndim)
    rows = ctx.accumulated(segments.rows(data))
    how, empty = _REDUCTIONS[reduce]
    result = segments.reduced(rows, how, empty if initial is None else initial)
    if reduce == "mean":
        counts = segments.reduced(lax.full_like(rows, 1), "sum", 0)
        nothing = lax.full_like(result, math.nan if initial is None else initial)
        result = jnp.where(counts > 0, result / jnp.maximum(counts, lax.full_like(counts, 1)), nothing)
    return lax.reshape(result, ctx.shape)


@lowers("_segment_reduce_backward")
def _segment_reduce_backward(
    ctx: Context,
    grad: Array,
    output: Array,
    data: Array,
    reduce: str,
    lengths: Array | None = None,
    offsets: Array | None = None,
    axis: int = 0,
    initial: Any = None,
) -> Array:
    if 0 in ctx.shape:
        return lax.full(ctx.shape, 0, data.dtype)
    segments = _Segments(data, lengths, offsets, axis % data.ndim)
    rows, own_grad = segments.rows(data), segments.spread(segments.rows(grad))
    own_output = segments.spread(segments.rows(output))
    if reduce in ("max", "min"):  # shared by all elements that are the extreme
        chosen = (rows == own_output) | ((rows != rows) & (own_output != own_output))
        ones = lax.convert_element_type(chosen, rows.dtype)
        share = segments.spread(segments.reduced(ones, "sum", 0))
        own_grad = jnp.where(chosen, own_grad / jnp.maximum(share, lax.full_like(share, 1)), lax.full_like(rows, 0))
    elif reduce == "mean":
        counts = segments.spread(segments.reduced(lax.full_like(rows, 1), "sum", 0))
        own_grad = own_grad / jnp.maximum(counts, lax.full_like(counts, 1))
    elif reduce == "prod":
        own_grad = own_grad * _product_of_others(segments, rows, own_output, 1.0 if initial is None else initial)
    return lax.reshape(own_grad, ctx.shape)


def _product_of_others(segments: _Segments, rows: Array, product: Array, initial: Any) -> Array:
    """The product of a row's segment without the row: by division, and where it is 0 by leaving zeros out."""
    zero, one = lax.full_like(rows, 0), lax.full_like(rows, 1)
    is_zero = rows == zero
    zeros = segments.spread(segments.reduced(lax.convert_element_type(is_zero, rows.dtype), "sum", 0))
    others = segments.spread(segments.reduced(jnp.where(is_zero, one, rows), "prod", initial))
    without = jnp.where(zeros == one, others, zero)
    return jnp.where(is_zero, without, product / jnp.where(is_zero, one, rows))

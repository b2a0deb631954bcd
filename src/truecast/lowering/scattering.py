"""Writing at positions that are data: index_put, scatter and their reductions.

Where a row accumulates, duplicates are summed in the accumulate dtype (law N4) and rounded once. Where the last
write wins, XLA writes in the order of the positions, as PyTorch does on the CPU. Positions out of bounds are
dropped (indexing.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from truecast import dtypes
from truecast.lowering.context import Array, Context
from truecast.lowering.indexing import OUTSIDE, clamped, is_mask, positions, rank_in, rows, truth
from truecast.lowering.registry import lowers
from truecast.lowering.shape import axis_of, zeros

# How one more value joins what stands at a position. Sums and products of bools are "or" and "and".
_COMBINE: dict[str, Callable[..., Array]] = {
    "set": lax.scatter,
    "sum": lax.scatter_add,
    "prod": lax.scatter_mul,
    "amax": lax.scatter_max,
    "amin": lax.scatter_min,
}
_OF_BOOLS = {"sum": "amax", "prod": "amin"}
_NAMES = {"add": "sum", "multiply": "prod", "mean": "sum"}
Writer = Callable[[Array, Array, str], Array]  # (base, updates, how) -> base with the updates


def _identity(how: str, dtype: Any) -> Any:
    """What leaves any value unchanged under `how`."""
    if how in ("sum", "prod"):
        return 0 if how == "sum" else 1
    if dtypes.of(dtype).is_floating:
        return -math.inf if how == "amax" else math.inf
    if dtype == jnp.bool_:
        return how == "amin"
    return np.iinfo(dtype).min if how == "amax" else np.iinfo(dtype).max


def _along(index: Array, axis: int) -> Writer:
    """Writes update[i, j, ..] at self[i, index[i, j, ..], ..]; an index may cover less than self elsewhere."""
    others = tuple(i for i in range(index.ndim) if i != axis)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(),
        inserted_window_dims=(axis,),
        scatter_dims_to_operand_dims=(axis,),
        operand_batching_dims=others,
        scatter_indices_batching_dims=others,
    )

    def write(base: Array, updates: Array, how: str) -> Array:
        box = [base.shape[i] if i == axis else index.shape[i] for i in range(base.ndim)]
        part = lax.slice(base, [0] * base.ndim, box)
        place = lax.expand_dims(index, (index.ndim,))
        part = _COMBINE[how](part, place, updates, numbers, mode=OUTSIDE)
        return part if part.shape == base.shape else lax.dynamic_update_slice(base, part, [0] * base.ndim)

    return write


def at_positions(place: tuple[Any, ...], wrap: bool) -> Writer:
    """Writes at base[place], which broadcasts as PyTorch's indexing does; `wrap`: negatives count from the end."""

    def write(base: Array, updates: Array, how: str) -> Array:
        at = base.at[place]
        method = {"set": at.set, "sum": at.add, "prod": at.multiply, "amax": at.max, "amin": at.min}[how]
        return method(updates, mode="drop", wrap_negative_indices=wrap)

    return write


def _reduced(ctx: Context, self: Array, source: Array, reduce: str, write: Writer, include_self: bool = True) -> Array:
    """`self` with `source` reduced into it, in the accumulate dtype."""
    how = _NAMES.get(reduce, reduce)
    base, updates = ctx.accumulated(self), ctx.accumulated(source)
    if base.dtype == jnp.bool_:
        how = _OF_BOOLS.get(how, how)
    if not include_self:
        flags = lax.full(updates.shape, True, jnp.bool_)
        touched = write(lax.full(base.shape, False, jnp.bool_), flags, "set")
        base = lax.select(touched, lax.full_like(base, _identity(how, base.dtype)), base)
    result = write(base, updates, how)
    if reduce != "mean":
        return result
    counts = write(lax.full_like(base, 1 if include_self else 0), lax.full_like(updates, 1), "sum")
    return _quotient(result, lax.max(counts, lax.full_like(counts, 1)) if not _is_complex(counts) else counts)


def _is_complex(x: Array) -> bool:
    return dtypes.of(x.dtype).category == "complex"


def _quotient(total: Array, counts: Array) -> Array:
    """total / counts; of integers the floor, as PyTorch's mean of integers is."""
    quotient = lax.div(total, counts)
    if dtypes.of(total.dtype).is_inexact:
        return quotient
    below = lax.lt(lax.rem(total, counts), lax.full_like(total, 0))
    return lax.sub(quotient, lax.convert_element_type(below, total.dtype))


# ------------------------------------------------------------------------------------- along one dim: scatter, index_*


def _scatter(
    ctx: Context, self: Array, dim: int, index: Array, src: Any, reduce: str, include_self: bool = True
) -> Array:
    if index.size == 0:
        return self
    rank = max(self.ndim, index.ndim, 1)
    base, index = (lax.reshape(x, x.shape or (1,) * rank) for x in (self, index))
    if isinstance(src, bool | int | float | complex) or src.ndim == 0:
        src = lax.broadcast_in_dim(ctx.stored(src, self), index.shape, ())
    src = lax.slice(src, [0] * rank, index.shape)
    write = _along(index, axis_of(dim, rank))
    if reduce == "set":
        return lax.reshape(write(base, src, "set"), self.shape)
    return lax.reshape(_reduced(ctx, base, src, reduce, write, include_self), self.shape)


@lowers("scatter.src")
def scatter_src(ctx: Context, self: Array, dim: int, index: Array, src: Array) -> Array:
    return _scatter(ctx, self, dim, index, src, "set")


@lowers("scatter.value")
def scatter_value(ctx: Context, self: Array, dim: int, index: Array, value: Any) -> Array:
    return _scatter(ctx, self, dim, index, value, "set")


@lowers("scatter.reduce")
def scatter_with(ctx: Context, self: Array, dim: int, index: Array, src: Array, reduce: str) -> Array:
    return _scatter(ctx, self, dim, index, src, reduce)


@lowers("scatter.value_reduce")
def scatter_value_with(ctx: Context, self: Array, dim: int, index: Array, value: Any, reduce: str) -> Array:
    return _scatter(ctx, self, dim, index, value, reduce)


@lowers("scatter_add")
def scatter_add(ctx: Context, self: Array, dim: int, index: Array, src: Array) -> Array:
    return _scatter(ctx, self, dim, index, src, "sum")


@lowers("scatter_reduce.two")
def scatter_reduce(
    ctx: Context, self: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool
) -> Array:
    return _scatter(ctx, self, dim, index, src, reduce, include_self)


def _slices(self: Array, dim: int, index: Array, source: Array, wrap: bool = False) -> tuple[Array, Array, Writer]:
    """self, source and a writer of whole slices; of 0-dim tensors the 1-dim forms."""
    base = lax.reshape(self, self.shape or (1,))
    axis = axis_of(dim, self.ndim)
    index = lax.reshape(index, (index.size,))
    source = lax.reshape(source, (*base.shape[:axis], index.size, *base.shape[axis + 1 :])) if source.ndim else source
    return base, source, at_positions((slice(None),) * axis + (index,), wrap)


@lowers("index_add")
def index_add(ctx: Context, self: Array, dim: int, index: Array, source: Array, alpha: Any) -> Array:
    base, source, write = _slices(self, dim, index, source)
    source = ctx.accumulated(source)
    if not (isinstance(alpha, bool | int | float) and alpha == 1):
        factor = lax.broadcast_in_dim(ctx.stored(alpha, source), source.shape, ())
        source = lax.bitwise_and(source, factor) if source.dtype == jnp.bool_ else lax.mul(source, factor)
    return lax.reshape(_reduced(ctx, base, source, "sum", write), self.shape)


@lowers("index_reduce")
def index_reduce(
    ctx: Context, self: Array, dim: int, index: Array, source: Array, reduce: str, include_self: bool
) -> Array:
    base, source, write = _slices(self, dim, index, source)
    return lax.reshape(_reduced(ctx, base, source, reduce, write, include_self), self.shape)


@lowers("index_copy")
def index_copy(ctx: Context, self: Array, dim: int, index: Array, source: Array) -> Array:
    base, source, write = _slices(self, dim, index, source)
    return lax.reshape(write(base, ctx.stored(source, self), "set"), self.shape)


@lowers("index_fill")
def index_fill(ctx: Context, self: Array, dim: int, index: Array, value: Any) -> Array:
    base, value, write = _slices(self, dim, index, ctx.stored(value, self), wrap=True)
    return lax.reshape(write(base, value, "set"), self.shape)


# ------------------------------------------------------------------------------------------- at several dims: index_put


@lowers("index_put _unsafe_index_put _index_put_impl")
def index_put(
    ctx: Context, self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool, **_: Any
) -> Array:
    values = ctx.stored(values, self)
    if any(is_mask(i) for i in indices):
        return _put_where(ctx, self, indices, values, accumulate)
    write = at_positions(positions(indices), wrap=True)
    return _reduced(ctx, self, values, "sum", write) if accumulate else write(self, values, "set")


def _put_where(ctx: Context, self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool) -> Array:
    """self[:, .., mask] = values: a choice, since the k-th true element takes the k-th value."""
    given = [(axis, i) for axis, i in enumerate(indices) if i is not None]
    if len(given) > 1:
        ctx.unsupported("mixes a mask with other indices", "write it as torch.where over the broadcast mask")
    axis, mask = given[0]
    flags = lax.reshape(truth(mask), (mask.size,))
    behind = axis + mask.ndim
    rank = self.ndim - mask.ndim + 1  # of self[:, .., mask]
    values = lax.reshape(values, (1,) * (rank - values.ndim) + values.shape)
    if values.shape[axis] not in (0, 1):
        values = rows(values, axis, lax.min(rank_in(flags), lax.full(flags.shape, values.shape[axis] - 1, jnp.int64)))
        values = lax.reshape(values, (*values.shape[:axis], *mask.shape, *values.shape[axis + 1 :]))
    elif values.shape[axis] == 1:
        values = lax.reshape(values, (*values.shape[:axis], *(1,) * mask.ndim, *values.shape[axis + 1 :]))
    else:
        return self
    wide = lax.broadcast_in_dim(values, self.shape, range(self.ndim))
    chosen = lax.broadcast_in_dim(truth(mask), self.shape, range(axis, behind))
    if not accumulate:
        return lax.select(chosen, wide, self)
    base, wide = ctx.accumulated(self), ctx.accumulated(wide)
    if base.dtype == jnp.bool_:
        return lax.select(chosen, lax.bitwise_or(base, wide), base)
    return lax.select(chosen, lax.add(base, wide), base)


@lowers("_unsafe_masked_index_put_accumulate")
def unsafe_masked_index_put_accumulate(
    ctx: Context, self: Array, mask: Array, indices: Sequence[Array | None], values: Array
) -> Array:
    if 0 in self.shape:
        return self
    kept = lax.select(jnp.broadcast_to(truth(mask), values.shape), values, zeros(values.shape, values))
    return _reduced(ctx, self, kept, "sum", at_positions(positions(clamped(self, indices)), wrap=True))


@lowers("put")
def put(ctx: Context, self: Array, index: Array, source: Array, accumulate: bool) -> Array:
    flat, source = lax.reshape(self, (self.size,)), lax.reshape(ctx.stored(source, self), index.shape)
    write = at_positions((index,), wrap=True)
    result = _reduced(ctx, flat, source, "sum", write) if accumulate else write(flat, source, "set")
    return lax.reshape(result, self.shape)

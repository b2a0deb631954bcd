"""Reading at positions that are data, and choosing by masks. Writing stands in scattering.py.

Positions out of bounds (PyTorch raises on the CPU; a compiled program can't): a read gives NaN, or the dtype's
lowest value where there is no NaN (unsigned: the highest, bool: True), never another element; a write is dropped.
Negative positions count from the end exactly where PyTorch lets them (index, index_put, index_fill, take, put)
and are out of bounds elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from truecast.errors import UnsupportedError
from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers
from truecast.lowering.shape import axis_of, choose, expand, zeros

OUTSIDE = lax.GatherScatterMode.FILL_OR_DROP


def is_mask(index: Array | None) -> bool:
    """Whether an index chooses by truth (bool, or uint8 as PyTorch still allows), not by position."""
    return index is not None and index.dtype in (jnp.bool_, jnp.uint8)


def truth(mask: Array) -> Array:
    return mask if mask.dtype == jnp.bool_ else lax.ne(mask, lax.full_like(mask, 0))


def data_dependent(ctx: Context, help: str) -> UnsupportedError:
    """The error of an operation whose result's shape depends on values."""
    return UnsupportedError(
        f"{ctx.node.op} makes a result whose shape depends on values",
        where=ctx.node.site,
        values=", ".join(map(str, ctx.node.inputs)),
        why="XLA compiles a program for fixed shapes; the shape seen while capturing holds for that data only",
        help=help,
    )


_KEEP_SHAPE = "keep the shape: torch.where(mask, x, fill), or reduce over x * mask"
for _names, _help in (
    ("nonzero argwhere nonzero_numpy", "use torch.nonzero_static(x, size=n), or a mask with torch.where"),
    ("masked_select", _KEEP_SHAPE),
    ("_unique _unique2 unique_dim unique_consecutive unique_dim_consecutive", "sort, and mark where neighbours differ"),
    ("bincount", "use torch.zeros(n).index_add(0, x, ones) with a fixed n"),
):

    @lowers(_names)
    def _refuse(ctx: Context, help: str = _help, **_: Any) -> Any:
        raise data_dependent(ctx, help)


# ----------------------------------------------------------------------------------------------------- reading


@lowers("index _unsafe_index")
def index(ctx: Context, self: Array, indices: Sequence[Array | None]) -> Array:
    if any(is_mask(i) for i in indices):
        raise data_dependent(ctx, _KEEP_SHAPE)
    if _reads_of_nothing(self, ctx.shape):
        return _outside(ctx.shape, self)
    return self.at[positions(indices)].get(mode="fill")


def _reads_of_nothing(self: Array, shape: Sequence[int]) -> bool:
    """Whether elements are asked for where there are none: each position is out of bounds, and XLA refuses it."""
    return 0 in self.shape and 0 not in shape


def _outside(shape: Sequence[int], like: Array) -> Array:
    """What a read out of bounds gives."""
    dtype = like.dtype
    if jnp.issubdtype(dtype, jnp.inexact):
        value: Any = math.nan
    elif dtype == jnp.bool_:
        value = True
    else:
        value = jnp.iinfo(dtype).max if jnp.issubdtype(dtype, jnp.unsignedinteger) else jnp.iinfo(dtype).min
    return lax.full(tuple(shape), value, dtype)


def positions(indices: Sequence[Array | None]) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


def clamped(self: Array, indices: Sequence[Array | None]) -> list[Array | None]:
    """Positions limited to [-extent, extent - 1], as _unsafe_masked_index limits them."""

    def limit(i: Array, extent: int) -> Array:
        return lax.clamp(lax.full((), -extent, i.dtype), i, lax.full((), extent - 1, i.dtype))

    return [None if i is None else limit(i, self.shape[axis]) for axis, i in enumerate(indices)]


@lowers("_unsafe_masked_index")
def unsafe_masked_index(ctx: Context, self: Array, mask: Array, indices: Sequence[Array | None], fill: Any) -> Array:
    if 0 in self.shape:
        return expand(ctx, ctx.stored(fill, self))
    taken = self.at[positions(clamped(self, indices))].get(mode="promise_in_bounds")
    return choose(ctx, mask, taken, ctx.stored(fill, self))


@lowers("index_select")
def index_select(ctx: Context, self: Array, dim: int, index: Array) -> Array:
    if self.ndim == 0:
        self = lax.reshape(self, (1,))
    return lax.reshape(rows(self, axis_of(dim, self.ndim), lax.reshape(index, (index.size,))), ctx.shape)


def rows(self: Array, axis: int, index: Array) -> Array:
    """The slices of `self` at `index` along `axis`; the axes of `index` stand in place of it."""
    shape = (*self.shape[:axis], *index.shape, *self.shape[axis + 1 :])
    if _reads_of_nothing(self, shape):
        return _outside(shape, self)
    place = (slice(None),) * axis + (index,)
    return self.at[place].get(mode="fill", wrap_negative_indices=False)


@lowers("gather")
def gather(ctx: Context, self: Array, dim: int, index: Array, **_: Any) -> Array:
    if 0 in ctx.shape:
        return zeros(ctx.shape, self)
    if _reads_of_nothing(self, ctx.shape):
        return _outside(ctx.shape, self)
    rank = max(self.ndim, index.ndim, 1)
    self, index = (lax.reshape(x, x.shape or (1,) * rank) for x in (self, index))
    axis = axis_of(dim, rank)
    box = [self.shape[i] if i == axis else index.shape[i] for i in range(rank)]
    return lax.reshape(along(lax.slice(self, [0] * rank, box), index, axis), ctx.shape)


def along(self: Array, index: Array, axis: int) -> Array:
    """self[..., index[..., i, ...], ...]: both have the same extents but along `axis`."""
    others = tuple(i for i in range(self.ndim) if i != axis)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )
    return lax.gather(self, lax.expand_dims(index, (index.ndim,)), numbers, (1,) * self.ndim, mode=OUTSIDE)


@lowers("take")
def take(ctx: Context, self: Array, index: Array) -> Array:
    if self.size == 0:
        return zeros(ctx.shape, self)
    return lax.reshape(self, (self.size,)).at[index].get(mode="fill")


@lowers("nonzero_static")
def nonzero_static(ctx: Context, self: Array, size: int, fill_value: int) -> Array:
    flags = lax.reshape(truth(lax.ne(self, lax.full_like(self, 0))), (self.size,))
    slots = lax.select(flags, rank_in(flags), lax.full(flags.shape, size, jnp.int64))
    number = lax.iota(jnp.int64, self.size)
    columns, stride = [], self.size
    for extent in self.shape:
        stride //= max(extent, 1)
        at = lax.rem(lax.div(number, lax.full_like(number, max(stride, 1))), lax.full_like(number, max(extent, 1)))
        columns.append(lax.full((size,), fill_value, jnp.int64).at[slots].set(at, mode="drop"))
    return lax.reshape(jnp.stack(columns, 1), ctx.shape) if columns else lax.full(ctx.shape, fill_value, jnp.int64)


def rank_in(flags: Array) -> Array:
    """For each element of a 1-dim mask, how many true ones precede it."""
    counted = lax.convert_element_type(flags, jnp.int64)
    return lax.sub(lax.cumsum(counted), counted)


# ------------------------------------------------------------------------------------------------------- masks


@lowers("masked_fill")
def masked_fill(ctx: Context, self: Array, mask: Array, value: Any) -> Array:
    return choose(ctx, mask, ctx.stored(value, self), self)


@lowers("masked_scatter")
def masked_scatter(ctx: Context, self: Array, mask: Array, source: Array) -> Array:
    if source.size == 0:
        return expand(ctx, self)
    flags = lax.reshape(expand(ctx, truth(mask)), (math.prod(ctx.shape),))
    taken = lax.reshape(source, (source.size,)).at[rank_in(flags)].get(mode="clip")
    return choose(ctx, mask, lax.reshape(ctx.stored(taken, self), ctx.shape), self)


@lowers("masked_scatter_backward")
def masked_scatter_backward(ctx: Context, grad_output: Array, mask: Array, sizes: Sequence[int]) -> Array:
    flags = jnp.ravel(jnp.broadcast_to(truth(mask), grad_output.shape))
    size = math.prod(sizes)
    slots = lax.select(flags, rank_in(flags), lax.full(flags.shape, size, jnp.int64))
    result = lax.full((size,), 0, grad_output.dtype).at[slots].set(jnp.ravel(grad_output), mode="drop")
    return lax.reshape(result, tuple(sizes))

"""Movement: views, joins and rearrangements. No arithmetic, so every result is exact in any dtype.

A Graph is functional: a view is a new value and `self` is contiguous in its logical order, which is what
as_strided and view.dtype count on. Writing through a view stands in view_writes.py; padding, windows and pixel
shuffles in windows.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from truecast import dtypes
from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers, register


def axis_of(dim: int, rank: int) -> int:
    """A PyTorch dim (negative counts from the end; a 0-dim tensor has dims 0 and -1) as an axis."""
    return dim % max(rank, 1)


def zeros(shape: Sequence[int], like: Array) -> Array:
    return lax.full(tuple(shape), 0, like.dtype)


# ------------------------------------------------------------------------------- same elements, another shape

register(
    "view _unsafe_view _reshape_alias view_copy _reshape_alias_copy squeeze squeeze_copy unsqueeze unsqueeze_copy",
    lambda ctx, self, **_: lax.reshape(self, ctx.shape),
)
register(
    "clone alias alias_copy detach detach_copy lift lift_fresh lift_fresh_copy",
    lambda ctx, self, **_: self,
)


@lowers("expand expand_copy")
def expand(ctx: Context, self: Array, **_: Any) -> Array:
    return lax.broadcast_in_dim(self, ctx.shape, range(len(ctx.shape) - self.ndim, len(ctx.shape)))


@lowers("permute permute_copy")
def permute(ctx: Context, self: Array, dims: Sequence[int]) -> Array:
    return ctx.permuted(self, [axis_of(d, self.ndim) for d in dims])


@lowers("t t_copy")
def t(ctx: Context, self: Array) -> Array:
    return ctx.permuted(self, tuple(reversed(range(self.ndim))))


@lowers("transpose transpose_copy")
def transpose(ctx: Context, self: Array, dim0: int, dim1: int) -> Array:
    return ctx.permuted(self, _swapping(self, dim0, dim1))


def swap(self: Array, dim0: int, dim1: int) -> Array:
    return lax.transpose(self, _swapping(self, dim0, dim1))


def _swapping(self: Array, dim0: int, dim1: int) -> list[int]:
    order = list(range(self.ndim))
    if order:
        a, b = axis_of(dim0, self.ndim), axis_of(dim1, self.ndim)
        order[a], order[b] = order[b], order[a]
    return order


# --------------------------------------------------------------------------------------------------- bit patterns


@lowers("view.dtype view_copy.dtype")
def view_dtype(ctx: Context, self: Array) -> Array:
    source, target = dtypes.of(self.dtype), dtypes.of(ctx.dtype)
    if source is not next(ctx.node.inputs).dtype or target is not ctx.first.dtype:
        ctx.unsupported("reinterprets the bits of a dtype that `storage` maps to another one")
    if source is target:
        return self
    if source is dtypes.bool_:
        self = lax.convert_element_type(self, jnp.uint8)  # a bool is the byte 0 or 1
    if source.category == "complex":
        self = _components(self)
        self = lax.reshape(self, (*self.shape[:-2], self.shape[-2] * 2))
    if target is dtypes.bool_:
        return lax.ne(_bits(self, jnp.uint8, ctx.shape), jnp.uint8(0))
    if target.category == "complex":
        return _complex(_bits(self, dtypes.numpy_dtype(dtypes.real_of(target)), (*ctx.shape, 2)))
    return _bits(self, ctx.dtype, ctx.shape)


def _bits(self: Array, target: Any, shape: Sequence[int]) -> Array:
    """The bits of `self` as elements of `target`, whose size may differ (along the last axis), in `shape`."""
    ratio = jnp.dtype(target).itemsize // self.dtype.itemsize
    if ratio > 1:
        self = lax.reshape(self, (*self.shape[:-1], self.shape[-1] // ratio, ratio))
    return lax.reshape(lax.bitcast_convert_type(self, target), tuple(shape))


def _components(self: Array) -> Array:
    return lax.concatenate(
        [lax.expand_dims(part, (self.ndim,)) for part in (lax.real(self), lax.imag(self))], self.ndim
    )


def _complex(pairs: Array) -> Array:
    return lax.complex(lax.index_in_dim(pairs, 0, -1, keepdims=False), lax.index_in_dim(pairs, 1, -1, keepdims=False))


register("view_as_real view_as_real_copy", lambda ctx, self: _components(self))
register("view_as_complex view_as_complex_copy", lambda ctx, self: _complex(self))


# --------------------------------------------------------------------------------------------------------- pieces


@lowers("select.int select_copy.int")
def select(ctx: Context, self: Array, dim: int, index: int) -> Array:
    return lax.index_in_dim(self, index, axis_of(dim, self.ndim), keepdims=False)


def bounds(start: int | None, end: int | None, extent: int) -> tuple[int, int]:
    """First and one past the last position of a slice, clamped as Python and PyTorch clamp."""
    first, stop, _ = slice(start, end).indices(extent)
    return first, max(first, stop)


@lowers("slice.Tensor slice_copy.Tensor")
def slice_(ctx: Context, self: Array, dim: int, start: int | None, end: int | None, step: int) -> Array:
    axis = axis_of(dim, self.ndim)
    return lax.slice_in_dim(self, *bounds(start, end, self.shape[axis]), step, axis)


@lowers("narrow_copy")
def narrow_copy(ctx: Context, self: Array, dim: int, start: int, length: int) -> Array:
    axis = axis_of(dim, self.ndim)
    first = start + self.shape[axis] if start < 0 else start
    return lax.slice_in_dim(self, first, first + length, 1, axis)


@lowers("split split_copy split_with_sizes split_with_sizes_copy unsafe_split unsafe_split_with_sizes")
def split(ctx: Context, self: Array, dim: int, **_: Any) -> list[Array]:
    axis = axis_of(dim, self.ndim)
    ends = list(itertools.accumulate(_present(ctx, i).shape[axis] for i in range(len(ctx.outputs))))
    return [lax.slice_in_dim(self, a, b, 1, axis) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _present(ctx: Context, index: int) -> Any:
    value = ctx.outputs[index]
    assert value is not None, f"{ctx.node.op}: piece {index} of a list of tensors is missing"
    return value


@lowers("unbind unbind_copy")
def unbind(ctx: Context, self: Array, dim: int) -> list[Array]:
    axis = axis_of(dim, self.ndim)
    return [lax.index_in_dim(self, i, axis, keepdims=False) for i in range(self.shape[axis])]


@lowers("diagonal diagonal_copy")
def diagonal(ctx: Context, self: Array, offset: int, dim1: int, dim2: int) -> Array:
    return diagonal_of(self, offset, dim1, dim2)


def diagonal_of(self: Array, offset: int, dim1: int, dim2: int) -> Array:
    """The diagonal as a strided slice: (i, i + offset) is element i * (columns + 1) + start of the flat matrix."""
    self = jnp.moveaxis(self, (dim1, dim2), (-2, -1))
    *lead, rows, columns = self.shape
    length, start = _diagonal(rows, columns, offset)
    if length == 0:
        return zeros((*lead, 0), self)
    flat = lax.reshape(self, (*lead, rows * columns))
    return lax.slice_in_dim(flat, start, start + (length - 1) * (columns + 1) + 1, columns + 1, -1)


def _diagonal(rows: int, columns: int, offset: int) -> tuple[int, int]:
    """Length, and flat position of the first element, of a matrix's diagonal."""
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    return length, offset if offset >= 0 else -offset * columns


def place_diagonal(piece: Array, shape: Sequence[int], offset: int, dim1: int, dim2: int) -> Array:
    """Zeros of `shape` with `piece` (its last axis) on a diagonal: what diagonal_of undoes."""
    first, second = axis_of(dim1, len(shape)), axis_of(dim2, len(shape))
    rows, columns = shape[first], shape[second]
    lead = [extent for i, extent in enumerate(shape) if i not in (first, second)]
    length, start = _diagonal(rows, columns, offset)
    if length == 0:
        return zeros(shape, piece)
    flat = spread(piece, len(lead), rows * columns, start, columns + 1)
    return jnp.moveaxis(lax.reshape(flat, (*lead, rows, columns)), (-2, -1), (first, second))


def spread(piece: Array, axis: int, extent: int, start: int, step: int) -> Array:
    """Zeros, `extent` long along `axis`, with `piece` at start, start + step, ..."""
    length = piece.shape[axis]
    if length == 0:
        return zeros((*piece.shape[:axis], extent, *piece.shape[axis + 1 :]), piece)
    config = [(0, 0, 0)] * piece.ndim
    config[axis] = (start, extent - start - (length - 1) * step - 1, step - 1)
    return lax.pad(piece, lax.full((), 0, piece.dtype), config)


@lowers("diag_embed")
def diag_embed(ctx: Context, self: Array, offset: int, dim1: int, dim2: int) -> Array:
    return place_diagonal(self, ctx.shape, offset, dim1, dim2)


@lowers("as_strided as_strided_copy")
def as_strided(
    ctx: Context, self: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> Array:
    offset = storage_offset or 0
    if math.prod(size) == 0:
        return zeros(size, self)
    check_extent(ctx, self, size, stride, offset)
    flat = lax.reshape(self, (self.size,))
    moving = sorted((i for i in range(len(size)) if size[i] > 1 and stride[i] != 0), key=lambda i: -stride[i])
    extents = [size[i] for i in moving]
    if all(stride[i] == math.prod(extents[k + 1 :]) for k, i in enumerate(moving)):
        dense = lax.reshape(lax.slice_in_dim(flat, offset, offset + math.prod(extents)), extents)
        order = sorted(range(len(moving)), key=lambda k: moving[k])
        return lax.broadcast_in_dim(lax.transpose(dense, order), size, sorted(moving))
    return flat.at[flat_positions(size, stride, offset)].get(mode="promise_in_bounds")


def flat_positions(size: Sequence[int], stride: Sequence[int], offset: int) -> Array:
    """The position in storage of each element of a strided view."""
    total = lax.full(tuple(size), offset, jnp.int64)
    for axis, step in enumerate(stride):
        total = lax.add(
            total, lax.mul(lax.broadcasted_iota(jnp.int64, tuple(size), axis), lax.full(tuple(size), step, jnp.int64))
        )
    return total


def check_extent(ctx: Context, self: Array, size: Sequence[int], stride: Sequence[int], offset: int) -> None:
    last = offset + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    if last >= self.size:
        ctx.unsupported(
            f"reaches element {last} of a storage that the Graph knows {self.size} elements of",
            help="apply as_strided to the whole tensor, or write it with slice, permute and expand",
        )


# ------------------------------------------------------------------------------------------- joins and rearranging


@lowers("cat")
def cat(ctx: Context, tensors: Sequence[Array], dim: int) -> Array:
    rank = len(ctx.shape)
    kept = [x for x in tensors if x.ndim == rank]  # PyTorch skips 1-dim empty tensors whatever the rank
    return lax.concatenate(kept, axis_of(dim, rank)) if kept else zeros(ctx.shape, tensors[0])


@lowers("_chunk_cat")
def chunk_cat(ctx: Context, tensors: Sequence[Array], dim: int, num_chunks: int) -> Array:
    """Each tensor cut into `num_chunks` rows along `dim`, the last one filled up with zeros; the rows side by side."""
    dim = axis_of(dim, tensors[0].ndim)
    lead = ctx.shape[:dim]
    columns = []
    for x in tensors:
        length = -(-x.shape[dim] // num_chunks)
        filled = lax.pad(
            x,
            lax.full((), 0, x.dtype),
            [(0, num_chunks * length - x.shape[dim] if i == dim else 0, 0) for i in range(x.ndim)],
        )
        columns.append(lax.reshape(filled, (*lead, num_chunks, length * math.prod(x.shape[dim + 1 :]))))
    return lax.concatenate(columns, dim + 1)


@lowers("stack")
def stack(ctx: Context, tensors: Sequence[Array], dim: int) -> Array:
    axis = axis_of(dim, len(ctx.shape))
    return lax.concatenate([lax.expand_dims(x, (axis,)) for x in tensors], axis)


@lowers("block_diag")
def block_diag(ctx: Context, tensors: Sequence[Array]) -> Array:
    result, row, column = zeros(ctx.shape, tensors[0]), 0, 0
    for x in tensors:
        block = lax.reshape(x, (1,) * (2 - x.ndim) + x.shape)
        result = lax.dynamic_update_slice(result, block, (row, column))
        row, column = row + block.shape[0], column + block.shape[1]
    return result


@lowers("where.self")
def where(ctx: Context, condition: Array, self: Array, other: Array) -> Array:
    return choose(ctx, condition, self, other)


def choose(ctx: Context, condition: Array, true: Array, false: Array) -> Array:
    """The one or the other, all three broadcast to the result's shape; a uint8 condition is true where not 0."""
    if condition.dtype != bool:
        condition = lax.ne(condition, lax.full_like(condition, 0))
    return lax.select(expand(ctx, condition), expand(ctx, true), expand(ctx, false))


@lowers("flip")
def flip(ctx: Context, self: Array, dims: Sequence[int]) -> Array:
    return lax.rev(self, sorted({axis_of(d, self.ndim) for d in dims})) if self.ndim else self


@lowers("roll")
def roll(ctx: Context, self: Array, shifts: Sequence[int], dims: Sequence[int]) -> Array:
    if not dims:
        return lax.reshape(_roll(lax.reshape(self, (self.size,)), shifts[0], 0), self.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        self = _roll(self, shift, axis_of(dim, self.ndim))
    return self


def _roll(self: Array, shift: int, axis: int) -> Array:
    extent = self.shape[axis]
    cut = -shift % extent if extent else 0
    if cut == 0:
        return self
    return lax.concatenate(
        [lax.slice_in_dim(self, cut, extent, 1, axis), lax.slice_in_dim(self, 0, cut, 1, axis)], axis
    )


@lowers("rot90")
def rot90(ctx: Context, self: Array, k: int, dims: Sequence[int]) -> Array:
    first, second = (axis_of(d, self.ndim) for d in dims)
    turns = k % 4
    if turns == 2:
        return lax.rev(self, (first, second))
    if turns == 1:
        return swap(lax.rev(self, (second,)), first, second)
    return lax.rev(swap(self, first, second), (second,)) if turns else self


@lowers("repeat")
def repeat(ctx: Context, self: Array, repeats: Sequence[int]) -> Array:
    shape = (1,) * (len(repeats) - self.ndim) + self.shape
    pairs = [extent for pair in zip(repeats, shape, strict=True) for extent in pair]
    wide = lax.broadcast_in_dim(lax.reshape(self, shape), pairs, range(1, len(pairs), 2))
    return lax.reshape(wide, ctx.shape)


@lowers("repeat_interleave.self_int")
def repeat_interleave(ctx: Context, self: Array, repeats: int, dim: int | None, **_: Any) -> Array:
    axis = self.ndim if dim is None else axis_of(dim, self.ndim) + 1
    shape = (*self.shape[:axis], repeats, *self.shape[axis:])
    return lax.reshape(lax.broadcast_in_dim(self, shape, [i for i in range(len(shape)) if i != axis]), ctx.shape)


@lowers("tril triu")
def triangle(ctx: Context, self: Array, diagonal: int) -> Array:
    row = lax.broadcasted_iota(jnp.int32, self.shape, self.ndim - 2)
    column = lax.broadcasted_iota(jnp.int32, self.shape, self.ndim - 1)
    edge = lax.add(row, lax.full_like(row, max(min(diagonal, 2**30), -(2**30))))
    keep = lax.le(column, edge) if ctx.node.op.startswith("aten.tril") else lax.ge(column, edge)
    return lax.select(keep, self, zeros(self.shape, self))

"""Embeddings and bags of embeddings, forward and backward.

A bag is a run of positions whose rows are summed, averaged, or reduced to their maximum; rows of `padding_idx`
don't count. What PyTorch returns beside the result differs between its fast and slow paths on the CPU: the shape
that the Graph has for `offset2bag` (empty or not) tells which one it took.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.indexing import rows
from truecast.lowering.registry import lowers
from truecast.lowering.scattering import at_positions
from truecast.lowering.shape import zeros
from truecast.lowering.sorting import bisect

_SUM, _MEAN, _MAX = 0, 1, 2


@lowers("embedding")
def embedding(ctx: Context, weight: Array, indices: Array, **_: Any) -> Array:
    return rows(weight, 0, indices)


@lowers("embedding_dense_backward")
def embedding_dense_backward(
    ctx: Context, grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    index = lax.reshape(indices, (indices.size,))
    grad = ctx.accumulated(lax.reshape(grad_output, (indices.size, grad_output.shape[-1])))
    if scale_grad_by_freq:
        uses = _total(lax.full((indices.size,), 1, grad.dtype), index, num_weights)
        grad = lax.div(grad, _column(rows(uses, 0, index), grad))
    return _total(grad, _counted(index, index, padding_idx, num_weights), num_weights)


@lowers("embedding_renorm")
def embedding_renorm(ctx: Context, self: Array, indices: Array, max_norm: float, norm_type: float) -> Array:
    """The rows named by `indices` scaled down to a p-norm of `max_norm`; a row that is named twice is scaled once,
    since both write the same."""
    index = lax.reshape(indices, (indices.size,))
    row = ctx.accumulated(rows(self, 0, index))
    size = lax.abs(row)
    if norm_type == math.inf:
        norm = lax.reduce_max(size, (1,))
    elif norm_type == 2:
        norm = lax.sqrt(lax.reduce_sum(lax.mul(size, size), (1,)))
    else:
        powers = lax.reduce_sum(lax.pow(size, lax.full_like(size, norm_type)), (1,))
        norm = lax.pow(powers, lax.full_like(powers, 1 / norm_type))
    limit = lax.full_like(norm, max_norm)
    scale = lax.div(limit, lax.add(norm, lax.full_like(norm, 1e-7)))
    scale = lax.select(lax.gt(norm, limit), scale, lax.full_like(scale, 1))
    scaled = lax.mul(row, lax.broadcast_in_dim(scale, row.shape, (0,)))
    return at_positions((index,), wrap=False)(self, ctx.stored(scaled, self), "set")


# ---------------------------------------------------------------------------------------------------------------- bags


def _bags(offsets: Array, count: int) -> Array:
    """For each of `count` positions, the last bag that starts at or before it."""
    if offsets.size == 0:
        return lax.full((count,), 0, jnp.int64)
    position = lax.expand_dims(lax.iota(offsets.dtype, count), (0,))
    after = bisect(lax.expand_dims(offsets, (0,)), position, True)[0]
    return lax.sub(after, lax.full_like(after, 1))


def _total(values: Array, bags: Array, count: int, how: str = "sum", start: Any = 0) -> Array:
    """`values` of each bag reduced to one; `start` for an empty bag."""
    base = lax.full((count, *values.shape[1:]), start, values.dtype)
    return at_positions((bags,), wrap=False)(base, values, how)


def _column(vector: Array, like: Array) -> Array:
    return lax.broadcast_in_dim(lax.convert_element_type(vector, like.dtype), like.shape, (0,))


@lowers("_embedding_bag _embedding_bag_forward_only")
def embedding_bag(
    ctx: Context,
    weight: Array,
    indices: Array,
    offsets: Array,
    mode: int,
    per_sample_weights: Array | None,
    padding_idx: int,
    **_: Any,
) -> tuple[Array | None, ...]:
    count = ctx.shape[0]
    bags = _bags(offsets, indices.size)
    counted = _counted(indices, bags, padding_idx, count)
    taken = rows(weight, 0, indices)
    sizes = _total(lax.full_like(indices, 1), counted, count)
    if mode == _MAX:
        result, largest = _largest(taken, indices, counted, sizes)
        return _with_what_pytorch_shows(ctx, result, bags, sizes, largest)
    taken = ctx.accumulated(taken)
    if per_sample_weights is not None:
        taken = lax.mul(taken, _column(per_sample_weights, taken))
    result = _total(taken, counted, count)
    if mode == _SUM:
        return _with_what_pytorch_shows(ctx, result, bags, None, None)
    result = lax.div(result, _column(lax.max(sizes, lax.full_like(sizes, 1)), result))
    return _with_what_pytorch_shows(ctx, result, bags, sizes, sizes)


def _counted(indices: Array, bags: Array, padding_idx: int, count: int) -> Array:
    """`bags`, but past the last one for padding: what is written there is dropped."""
    padding = lax.eq(indices, lax.full_like(indices, padding_idx))
    return lax.select(padding, lax.full_like(bags, count), bags)


def _largest(taken: Array, indices: Array, bags: Array, sizes: Array) -> tuple[Array, Array]:
    """The maximum of each bag and feature, and the index of the row that it stands in, the first of several; 0 for
    an empty bag."""
    count = sizes.shape[0]
    largest = _total(taken, bags, count, "amax", -math.inf)
    hit = lax.eq(taken, rows(largest, 0, bags))
    position = lax.broadcasted_iota(jnp.int64, taken.shape, 0)
    missing = taken.shape[0]
    first = _total(lax.select(hit, position, lax.full_like(position, missing)), bags, count, "amin", missing)
    row = indices.at[first].get(mode="clip") if missing else zeros(largest.shape, indices)
    empty = lax.broadcast_in_dim(lax.eq(sizes, lax.full_like(sizes, 0)), largest.shape, (0,))
    return lax.select(empty, zeros(largest.shape, largest), largest), lax.select(empty, zeros(row.shape, row), row)


def _with_what_pytorch_shows(ctx: Context, result: Array, *beside: Array | None) -> tuple[Array | None, ...]:
    """offset2bag, bag_size and maximum_indices (None: zeros) in the dtypes and shapes of the Graph; on the fast path
    the first is empty and the others are zero. Bags that are forward only and have a last offset have one size more."""
    seen = ctx.outputs[1:]
    fast = seen[0] is None or seen[0].size == 0
    shown: list[Array | None] = [result]
    for value, array in zip(seen, beside, strict=True):
        if value is None:
            shown.append(None)
        elif fast or array is None:
            shown.append(lax.full(value.shape, 0, ctx.held(value)))
        else:
            held = lax.convert_element_type(array, ctx.held(value))
            more = [(0, there - here, 0) for here, there in zip(held.shape, value.shape, strict=True)]
            shown.append(lax.pad(held, jnp.zeros((), held.dtype), more))
    return tuple(shown)


@lowers("_embedding_bag_backward")
def embedding_bag_backward(
    ctx: Context, indices: Array, offsets: Array, offset2bag: Array, sparse: bool, **operands: Any
) -> Array:
    """`sparse` asks for a sparse gradient; a dense one holds the same numbers."""
    return embedding_bag_dense_backward(ctx, indices=indices, offset2bag=_bags(offsets, indices.size), **operands)


@lowers("_embedding_bag_dense_backward")
def embedding_bag_dense_backward(
    ctx: Context,
    grad: Array,
    indices: Array,
    offset2bag: Array,
    bag_size: Array,
    maximum_indices: Array,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Array | None,
    padding_idx: int,
) -> Array:
    grad = ctx.accumulated(grad)
    width = grad.shape[1]
    if mode == _MAX:
        empty = lax.broadcast_in_dim(lax.eq(bag_size, lax.full_like(bag_size, 0)), grad.shape, (0,))
        row = lax.select(empty, lax.full_like(maximum_indices, num_weights), maximum_indices)
        column = lax.broadcasted_iota(row.dtype, row.shape, 1)
        return at_positions((row, column), wrap=False)(lax.full((num_weights, width), 0, grad.dtype), grad, "sum")
    if mode == _MEAN:
        grad = lax.div(grad, _column(lax.max(bag_size, lax.full_like(bag_size, 1)), grad))
    each = rows(grad, 0, offset2bag)
    if per_sample_weights is not None:
        each = lax.mul(each, _column(per_sample_weights, each))
    if scale_grad_by_freq:
        uses = _total(lax.full(indices.shape, 1, each.dtype), indices, num_weights)
        each = lax.div(each, _column(rows(uses, 0, indices), each))
    return _total(each, _counted(indices, indices, padding_idx, num_weights), num_weights)


@lowers("_embedding_bag_per_sample_weights_backward")
def embedding_bag_per_sample_weights_backward(
    ctx: Context,
    grad: Array,
    weight: Array,
    indices: Array,
    offsets: Array,
    offset2bag: Array,
    mode: int,
    padding_idx: int,
) -> Array:
    each = rows(ctx.accumulated(grad), 0, _bags(offsets, indices.size))
    products = lax.reduce_sum(lax.mul(each, ctx.accumulated(rows(weight, 0, indices))), (1,))
    padding = lax.eq(indices, lax.full_like(indices, padding_idx))
    return lax.select(padding, lax.full_like(products, 0), products)

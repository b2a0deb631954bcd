"""Matrix products of groups of rows (mixtures of experts).

The group of a row is data, so a group's size is no shape: each group's product is formed over all rows with the
others' zeroed, and each row takes its own group's result.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers


def _membership(ends: Array, length: int) -> Array:
    """bool[groups, length]: whether position j lies in group g, which ends before `ends[g]`, where the next starts."""
    positions = lax.broadcasted_iota(ends.dtype, (ends.shape[0], length), 1)
    starts = lax.concatenate([lax.full((1,), 0, ends.dtype), ends[:-1]], 0)
    return (positions >= starts[:, None]) & (positions < ends[:, None])


@lowers("_grouped_mm")
def _grouped_mm(
    ctx: Context, self: Array, mat2: Array, offs: Array | None = None, bias: Array | None = None, **_: Any
) -> Array:
    """Rows of self in groups times a matrix a group (2-d by 3-d); a matrix a group times columns in groups (3-d by
    2-d); a product a group of the shared axis (2-d by 2-d); without groups, a stack of products (3-d by 3-d)."""
    if bias is not None:
        ctx.unsupported("with a bias", help="add the bias to the product")
    if offs is None:
        return ctx.dot(self, mat2, ((2,), (1,)), ((0,), (0,)))
    if self.ndim == 2 and mat2.ndim == 3:
        return _rows(ctx, self, mat2, offs)
    zero = ctx.constant(0, self)
    if self.ndim == 3 and mat2.ndim == 2:
        inside = _membership(offs, mat2.shape[1])[:, None, :]
        columns = jnp.where(inside, mat2[None], zero)
        return ctx.dot(self, columns, ((0, 2), (0, 1)))
    return _shared(ctx, self, mat2, offs)


def _rows(ctx: Context, rows: Array, matrices: Array, ends: Array) -> Array:
    """[rows, k] by [groups, k, n] -> [rows, n]. All but one group's products of a row are zero: the sum is exact."""
    inside = _membership(ends, rows.shape[0])[:, :, None]
    return ctx.dot(jnp.where(inside, rows[None], ctx.constant(0, rows)), matrices, ((0, 2), (0, 1)))


def _shared(ctx: Context, left: Array, right: Array, ends: Array) -> Array:
    """[m, rows] by [rows, n] -> [groups, m, n]: each group sums over its own rows."""
    inside = _membership(ends, left.shape[1])[:, None, :]
    return ctx.dot(jnp.where(inside, left[None], ctx.constant(0, left)), right, ((2,), (0,)))


@lowers("transformers.grouped_mm_fallback")
def _fallback(ctx: Context, input: Array, weight: Array, offs: Array) -> Array:
    return _rows(ctx, input, weight, offs)


@lowers("transformers.grouped_mm_fallback_backward")
def _fallback_backward(
    ctx: Context, input: Array, weight: Array, offs: Array, grad_output: Array
) -> tuple[Array, Array]:
    transposed = lax.transpose(weight, (0, 2, 1))
    by_row = lax.transpose(input, (1, 0))
    return _rows(ctx, grad_output, transposed, offs), _shared(ctx, by_row, grad_output, offs)

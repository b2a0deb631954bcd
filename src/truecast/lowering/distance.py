"""Distances between rows, cdist and pdist, with their backwards.

p = 2 is summed from the differences, never from |a|^2 + |b|^2 - 2ab, whose cancellation eager accepts for large inputs.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers


def _norm(ctx: Context, difference: Array, p: float) -> Array:
    """The p-norm along the last dim."""
    size, axis = lax.abs(difference), difference.ndim - 1
    if math.isinf(p):
        return jnp.max(size, axis=axis, initial=0)
    if p == 0:
        return ctx.sum(lax.convert_element_type(size != 0, size.dtype), (axis,))
    if p == 1:
        return ctx.sum(size, (axis,))
    if p == 2:
        return lax.sqrt(ctx.sum(size * size, (axis,)))
    total = ctx.sum(lax.pow(size, ctx.fill(p, size)), (axis,))
    return lax.pow(total, ctx.fill(1 / p, total))


def _norm_gradient(ctx: Context, difference: Array, grad: Array, distance: Array, p: float) -> Array:
    """The gradient of the first operand's elements, per pair; 0 where the distance is 0.

    grad, distance: as `difference` without its last dim.
    """
    upstream, norm = grad[..., None], distance[..., None]
    sign, zero = lax.sign(difference), ctx.fill(0, difference)
    if p == 0:
        return zero
    if p == 1:
        return sign * upstream
    if math.isinf(p):
        return jnp.where(lax.abs(difference) == norm, sign * upstream, zero)
    if p == 2:
        return jnp.where(norm == 0, zero, difference * (upstream / norm))
    power = ctx.fill(p - 1, difference)
    ratio = lax.abs(difference) / norm
    slope = sign * lax.pow(ratio, power) * upstream
    return jnp.where((norm == 0) | (difference == 0), zero, slope)


def _pairs(x1: Array, x2: Array) -> Array:
    """x1 [..., P, M], x2 [..., R, M] -> their differences [..., P, R, M]."""
    batch = jnp.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    a = jnp.broadcast_to(x1, (*batch, *x1.shape[-2:]))
    b = jnp.broadcast_to(x2, (*batch, *x2.shape[-2:]))
    return a[..., :, None, :] - b[..., None, :, :]


@lowers("_cdist_forward")
def _cdist(ctx: Context, x1: Array, x2: Array, p: float, compute_mode: int | None) -> Array:
    return _norm(ctx, _pairs(x1, x2), p)


@lowers("_euclidean_dist")
def _euclidean_dist(ctx: Context, x1: Array, x2: Array) -> Array:
    return _norm(ctx, _pairs(x1, x2), 2.0)


@lowers("_cdist_backward")
def _cdist_backward(ctx: Context, grad: Array, x1: Array, x2: Array, p: float, cdist: Array) -> Array:
    if grad.size == 0:  # a batch of 1 against one of 0: the gradient still has the operand's shape
        return lax.full(ctx.shape, 0, x1.dtype)
    difference = _pairs(x1, x2)
    return ctx.sum(_norm_gradient(ctx, difference, grad, cdist, p), (difference.ndim - 2,))


def _upper(rows: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The pairs i < j in the order of the condensed distance matrix."""
    i, j = np.triu_indices(rows, 1)
    return i, j


@lowers("_pdist_forward")
def _pdist(ctx: Context, self: Array, p: float = 2.0) -> Array:
    i, j = _upper(self.shape[0])
    return _norm(ctx, self[i] - self[j], p)


@lowers("_pdist_backward")
def _pdist_backward(ctx: Context, grad: Array, self: Array, p: float, pdist: Array) -> Array:
    rows = self.shape[0]
    i, j = _upper(rows)
    square = jnp.zeros((rows, rows), self.dtype)
    upstream = square.at[i, j].set(grad).at[j, i].set(grad)
    distance = square.at[i, j].set(pdist).at[j, i].set(pdist)
    return ctx.sum(_norm_gradient(ctx, _pairs(self, self), upstream, distance, p), (1,))

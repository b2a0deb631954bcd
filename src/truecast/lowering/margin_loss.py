"""Multi-class and multi-label margin losses, with their backwards."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.loss import MEAN, SUM
from truecast.lowering.registry import lowers


def _rows(x: Array) -> Array:
    return x.reshape(1, -1) if x.ndim < 2 else x


def _reduced_rows(ctx: Context, losses: Array, reduction: int) -> Array:
    """losses: one per row."""
    if reduction == MEAN:
        return ctx.mean(losses, (0,))
    return ctx.sum(losses, (0,)) if reduction == SUM else losses.reshape(ctx.shape)


def _grad_rows(ctx: Context, grad_output: Array, rows: int, reduction: int) -> Array:
    """The gradient of each row's loss, [rows, 1]."""
    grad = jnp.broadcast_to(grad_output.reshape(-1), (rows,))[:, None]
    return grad / ctx.constant(rows, grad) if reduction == MEAN else grad


def _margins(
    ctx: Context, x: Array, target: Array, p: Any, margin: Any, weight: Array | None
) -> tuple[Array, Array, Array]:
    """(how far each class intrudes into the target's margin, 0 for the target itself; is it the target; weight)."""
    target = target.reshape(-1)[:, None]
    is_target = lax.broadcasted_iota(target.dtype, x.shape, 1) == target
    own = jnp.take_along_axis(x, target, axis=1)
    z = ctx.scalar(margin, x) - own + x
    z = jnp.where(is_target | (z <= 0), ctx.fill(0, z), z)
    weights = ctx.fill(1, own) if weight is None else jnp.take(weight, target)
    return z, is_target, weights / ctx.constant(x.shape[1], x)


@lowers("multi_margin_loss")
def _multi_margin_loss(
    ctx: Context,
    self: Array,
    target: Array,
    p: Any = 1,
    margin: Any = 1,
    weight: Array | None = None,
    reduction: int = MEAN,
) -> Array:
    z, _, weights = _margins(ctx, _rows(self), target, p, margin, weight)
    losses = ctx.sum((z if p == 1 else z * z) * weights, (1,))
    return _reduced_rows(ctx, losses, reduction)


@lowers("multi_margin_loss_backward")
def _multi_margin_loss_backward(
    ctx: Context,
    grad_output: Array,
    self: Array,
    target: Array,
    p: Any,
    margin: Any,
    weight: Array | None = None,
    reduction: int = MEAN,
) -> Array:
    x = _rows(self)
    z, is_target, weights = _margins(ctx, x, target, p, margin, weight)
    slope = (jnp.where(z > 0, ctx.fill(1, z), z) if p == 1 else ctx.constant(2, z) * z) * weights
    own = -ctx.sum(slope, (1,), keepdims=True)
    grad = jnp.where(is_target, own, slope) * _grad_rows(ctx, grad_output, x.shape[0], reduction)
    return grad.reshape(self.shape)


def _labels(target: Array) -> tuple[Array, Array]:
    """(which positions of the target list count: those before the first -1; whether each class is in the list)."""
    counts = jnp.cumprod(jnp.where(target >= 0, 1, 0), axis=1) == 1
    classes = np.arange(target.shape[1])
    is_label = jnp.any((target[:, :, None] == classes) & counts[:, :, None], axis=1)
    return counts, is_label


def _intrusions(ctx: Context, x: Array, target: Array, counts: Array, is_label: Array) -> Array:
    """[rows, labels, classes]: 1 - (x of the label - x of the class), for classes that are no labels, if positive."""
    own = jnp.take_along_axis(x, jnp.where(counts, target, 0), axis=1)
    z = ctx.constant(1, x) - own[:, :, None] + x[:, None, :]
    return jnp.where(counts[:, :, None] & ~is_label[:, None, :] & (z > 0), z, ctx.constant(0, z))


@lowers("multilabel_margin_loss_forward")
def _multilabel_margin_loss(ctx: Context, self: Array, target: Array, reduction: int) -> tuple[Array, Array]:
    x, target = _rows(self), _rows(target)
    counts, is_label = _labels(target)
    z = _intrusions(ctx, x, target, counts, is_label)
    losses = ctx.sum(z, (1, 2)) / ctx.constant(x.shape[1], x)
    labels = lax.convert_element_type(is_label, x.dtype)
    return _reduced_rows(ctx, losses, reduction).reshape(ctx.shape), labels.reshape(self.shape)


@lowers("multilabel_margin_loss_backward")
def _multilabel_margin_loss_backward(
    ctx: Context, grad_output: Array, self: Array, target: Array, reduction: int, is_target: Array
) -> Array:
    x, target = _rows(self), _rows(target)
    counts, is_label = _labels(target)
    intruding = jnp.where(_intrusions(ctx, x, target, counts, is_label) > 0, ctx.constant(1, x), ctx.constant(0, x))
    pushed = ctx.sum(intruding, (1,))
    per_label = ctx.sum(intruding, (2,))
    at_class = target[:, :, None] == np.arange(x.shape[1])
    pulled = ctx.sum(jnp.where(at_class, per_label[:, :, None], ctx.constant(0, x)), (1,))
    grad = (pushed - pulled) / ctx.constant(x.shape[1], x)
    return (grad * _grad_rows(ctx, grad_output, x.shape[0], reduction)).reshape(self.shape)

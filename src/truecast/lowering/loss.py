"""Losses and their backwards. `reduction` is ATen's: 0 none, 1 mean, 2 sum; sums are held in `accumulate` (law N4).

F.cross_entropy dispatches _log_softmax, then nll_loss_forward (2-d input) or nll_loss2d_forward (4-d).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers, register

MEAN, SUM = 1, 2


def reduced(ctx: Context, losses: Array, reduction: int) -> Array:
    if reduction == MEAN:
        return ctx.mean(losses, range(losses.ndim))
    return ctx.sum(losses, range(losses.ndim)) if reduction == SUM else losses


def upstream(ctx: Context, grad_output: Array, like: Array, reduction: int) -> Array:
    """The gradient of each element's loss, given that of the reduced one."""
    grad = jnp.broadcast_to(grad_output, like.shape)
    return grad / ctx.constant(like.size, grad) if reduction == MEAN else grad


def _broadcast(self: Array, target: Array) -> tuple[Array, Array]:
    shape = jnp.broadcast_shapes(self.shape, target.shape)
    return jnp.broadcast_to(self, shape), jnp.broadcast_to(target, shape)


# ---- elementwise losses: the loss of one element, and its derivative in `self` -------------------------------------


def _squared(ctx: Context, self: Array, target: Array, _: float) -> Array:
    return (self - target) * (self - target)


def _squared_slope(ctx: Context, self: Array, target: Array, _: float) -> Array:
    return ctx.constant(2, self) * (self - target)


def _huber(ctx: Context, self: Array, target: Array, delta: Any) -> Array:
    distance, bound = lax.abs(self - target), ctx.number(delta, self)
    half = ctx.constant(0.5, self)
    return jnp.where(distance <= bound, half * distance * distance, bound * (distance - half * bound))


def _huber_slope(ctx: Context, self: Array, target: Array, delta: Any) -> Array:
    difference, bound = self - target, ctx.number(delta, self)
    return jnp.where(difference < -bound, -bound, jnp.where(difference > bound, bound, difference))


def _smooth_l1(ctx: Context, self: Array, target: Array, beta: Any) -> Array:
    distance, bound = lax.abs(self - target), ctx.number(beta, self)
    half = ctx.constant(0.5, self)
    return jnp.where(distance < bound, half * distance * distance / bound, distance - half * bound)


def _smooth_l1_slope(ctx: Context, self: Array, target: Array, beta: Any) -> Array:
    difference, bound = self - target, ctx.number(beta, self)
    one = ctx.fill(1, difference)
    linear = jnp.where(difference <= -bound, -one, jnp.where(difference >= bound, one, difference / bound))
    return linear


def _soft_margin(ctx: Context, self: Array, target: Array, _: float) -> Array:
    return lax.log1p(lax.exp(-target * self))


def _soft_margin_slope(ctx: Context, self: Array, target: Array, _: float) -> Array:
    z = lax.exp(-target * self)
    return -target * z / (z + ctx.constant(1, z))


Elementwise = Callable[[Context, Array, Array, Any], Array]


def _register_elementwise(name: str, loss: Elementwise, slope: Elementwise) -> None:
    def forward(
        ctx: Context, self: Array, target: Array, reduction: int = MEAN, delta: Any = 1.0, beta: Any = None
    ) -> Array:
        self, target = _broadcast(self, target)
        return reduced(ctx, loss(ctx, self, target, delta if beta is None else beta), reduction)

    def backward(
        ctx: Context,
        grad_output: Array,
        self: Array,
        target: Array,
        reduction: int,
        delta: Any = 1.0,
        beta: Any = None,
    ) -> Array:
        self, target = _broadcast(self, target)
        return upstream(ctx, grad_output, self, reduction) * slope(ctx, self, target, delta if beta is None else beta)

    register(name, forward)
    register(f"{name}_backward", backward)


_register_elementwise("mse_loss", _squared, _squared_slope)
_register_elementwise("huber_loss", _huber, _huber_slope)
_register_elementwise("smooth_l1_loss", _smooth_l1, _smooth_l1_slope)
_register_elementwise("soft_margin_loss", _soft_margin, _soft_margin_slope)


# ---- binary cross entropy ----------------------------------------------------------------------------------------


@lowers("binary_cross_entropy")
def _binary_cross_entropy(
    ctx: Context, self: Array, target: Array, weight: Array | None = None, reduction: int = MEAN
) -> Array:
    # Both logarithms are cut off at -100, so that a probability of 0 or 1 gives a finite loss.
    floor = ctx.constant(-100, self)
    log_p, log_q = jnp.maximum(lax.log(self), floor), jnp.maximum(lax.log1p(-self), floor)
    losses = (target - ctx.constant(1, target)) * log_q - target * log_p
    return reduced(ctx, losses if weight is None else losses * weight, reduction)


@lowers("binary_cross_entropy_backward")
def _binary_cross_entropy_backward(
    ctx: Context, grad_output: Array, self: Array, target: Array, weight: Array | None = None, reduction: int = MEAN
) -> Array:
    # The derivative of the cut-off logarithms, as eager has it: the denominator is at least 1e-12.
    denominator = jnp.maximum((ctx.constant(1, self) - self) * self, ctx.constant(1e-12, self))
    grad = jnp.broadcast_to(grad_output, self.shape) * (self - target) / denominator
    if weight is not None:
        grad = grad * weight
    return grad / ctx.constant(self.size, grad) if reduction == MEAN else grad


@lowers("binary_cross_entropy_with_logits")
def _binary_cross_entropy_with_logits(
    ctx: Context,
    self: Array,
    target: Array,
    weight: Array | None = None,
    pos_weight: Array | None = None,
    reduction: int = MEAN,
) -> Array:
    one = ctx.constant(1, self)
    log_sigmoid = jnp.minimum(self, ctx.constant(0, self)) - lax.log1p(lax.exp(-lax.abs(self)))
    if pos_weight is not None:
        log_sigmoid = log_sigmoid * ((pos_weight - one) * target + one)
    losses = (one - target) * self - log_sigmoid
    return reduced(ctx, losses if weight is None else losses * weight, reduction)


# ---- negative log likelihood ---------------------------------------------------------------------------------------


def _class_axis(self: Array) -> int:
    return 0 if self.ndim == 1 else 1


def _weights(ctx: Context, self: Array, target: Array, weight: Array | None, ignore_index: int) -> tuple[Array, Array]:
    """Each target's class, 0 where it is ignored, and its weight, 0 where it is ignored."""
    kept = target != ignore_index
    classes = jnp.where(kept, target, 0)
    zeros = lax.full(target.shape, 0, self.dtype)
    if weight is None:
        return classes, jnp.where(kept, lax.full(target.shape, 1, self.dtype), zeros)
    return classes, jnp.where(kept, jnp.take(weight, classes, mode="fill"), zeros)


@lowers("nll_loss_forward nll_loss2d_forward")
def _nll_loss(
    ctx: Context, self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    """The loss, and the sum of the weights that took part (0 for no reduction of a batch, as in eager).

    A class out of range is an error in eager; here its loss is NaN.
    """
    axis = _class_axis(self)
    classes, weights = _weights(ctx, self, target, weight, ignore_index)
    chosen = jnp.take_along_axis(self, jnp.expand_dims(classes, axis), axis=axis, mode="fill")
    # A class of weight 0 takes part (0 * inf is NaN), an ignored one doesn't.
    losses = jnp.where(target != ignore_index, -jnp.squeeze(chosen, axis) * weights, ctx.fill(0, weights))
    if reduction not in (MEAN, SUM) and self.ndim > 1:
        return losses, ctx.constant(0, losses)
    axes = range(losses.ndim)
    total_weight = ctx.sum(ctx.accumulated(weights), axes)
    total = ctx.sum(ctx.accumulated(losses), axes)
    return (total / total_weight if reduction == MEAN else total), total_weight


@lowers("nll_loss_backward nll_loss2d_backward")
def _nll_loss_backward(
    ctx: Context,
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Array:
    axis = _class_axis(self)
    classes, weights = _weights(ctx, self, target, weight, ignore_index)
    grad = -jnp.broadcast_to(grad_output, target.shape) * weights
    if reduction == MEAN:
        grad = grad / total_weight.reshape(())
    is_class = lax.broadcasted_iota(classes.dtype, self.shape, axis) == jnp.expand_dims(classes, axis)
    taking_part = is_class & jnp.expand_dims(target != ignore_index, axis)
    return jnp.where(taking_part, jnp.expand_dims(grad, axis), ctx.fill(0, self))

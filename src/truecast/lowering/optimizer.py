"""Fused optimizer steps and loss scaling, in their functional forms.

torch.optim's defaults on the CPU dispatch plain elementwise operations (or `_foreach_` ones, which capture writes
out); `fused=True` dispatches these. Learning rates and step counts may be 0-dim tensors or scalar inputs that change
from step to step (law N6); the tensors are in the compute dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import register

Tensors = Sequence[Array]


class _Step:
    """What all fused optimizers share: unscaling, the sign of `maximize`, and skipping a step that found an inf."""

    def __init__(self, ctx: Context, maximize: bool, grad_scale: Array | None, found_inf: Array | None) -> None:
        self.ctx, self.maximize, self.grad_scale, self.found_inf = ctx, maximize, grad_scale, found_inf

    def unscaled(self, grad: Array) -> Array:
        return grad if self.grad_scale is None else grad / self.ctx.scalar(self.grad_scale.reshape(()), grad)

    def descending(self, grad: Array) -> Array:
        return -grad if self.maximize else grad

    def kept(self, old: Sequence[Array], new: Sequence[Array]) -> list[Array]:
        """The new values, or the old ones where the step is skipped."""
        if self.found_inf is None:
            return list(new)
        skip = self.found_inf.reshape(()) == 1
        return [jnp.where(skip, o, n) for o, n in zip(old, new, strict=True)]


def _one_minus_power(ctx: Context, base: float, step: Array, like: Array) -> Array:
    """1 - base ** step, the bias correction, without the cancellation of 1 - 0.999 in float32."""
    exponent = ctx.scalar(step.reshape(()), like) * ctx.constant(math.log(base) if base else -math.inf, like)
    return -lax.expm1(exponent)


def _adam(decoupled: bool) -> Any:
    def rule(
        ctx: Context,
        self: Tensors,
        grads: Tensors,
        exp_avgs: Tensors,
        exp_avg_sqs: Tensors,
        max_exp_avg_sqs: Tensors,
        state_steps: Tensors,
        *,
        lr: Any,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Array | None = None,
        found_inf: Array | None = None,
    ) -> tuple[Array, ...]:
        step = _Step(ctx, maximize, grad_scale, found_inf)
        new: list[list[Array]] = [[], [], [], [], []]
        for index, parameter in enumerate(self):
            mean, square = exp_avgs[index], exp_avg_sqs[index]
            largest = max_exp_avg_sqs[index] if amsgrad else None
            unscaled = step.unscaled(grads[index])
            grad = step.descending(unscaled)
            rate = ctx.number(lr, parameter)
            decayed = parameter
            if weight_decay and decoupled:
                decayed = parameter - parameter * (rate * ctx.constant(weight_decay, parameter))
            elif weight_decay:
                grad = grad + parameter * ctx.constant(weight_decay, parameter)
            new_mean = mean + (grad - mean) * ctx.constant(1 - beta1, mean)
            new_square = square * ctx.constant(beta2, square) + grad * grad * ctx.constant(1 - beta2, square)
            new_largest = new_square if largest is None else jnp.maximum(largest, new_square)
            correction1 = _one_minus_power(ctx, beta1, state_steps[index], parameter)
            correction2 = _one_minus_power(ctx, beta2, state_steps[index], parameter)
            denominator = lax.sqrt(new_largest) / lax.sqrt(correction2) + ctx.constant(eps, parameter)
            updated = decayed - rate / correction1 * (new_mean / denominator)
            old = [parameter, grads[index], mean, square]
            results = step.kept(old, [updated, unscaled, new_mean, new_square])
            if largest is not None:
                results += step.kept([largest], [new_largest])
            for position, result in enumerate(results):
                new[position].append(result)
        return tuple(array for group in new for array in group)

    return rule


register("_fused_adam", _adam(decoupled=False))
register("_fused_adamw", _adam(decoupled=True))


def _sgd(
    ctx: Context,
    self: Tensors,
    grads: Tensors,
    momentum_buffer_list: Tensors,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Array | None = None,
    found_inf: Array | None = None,
) -> tuple[Array, ...]:
    step = _Step(ctx, maximize, grad_scale, found_inf)
    new: list[list[Array]] = [[], [], []]
    for index, parameter in enumerate(self):
        unscaled = step.unscaled(grads[index])
        grad = step.descending(unscaled)
        if weight_decay:
            grad = grad + parameter * ctx.constant(weight_decay, parameter)
        old, results = [parameter, grads[index]], [unscaled]
        if momentum:
            buffer = momentum_buffer_list[index]
            moved = buffer * ctx.constant(momentum, buffer) + grad * ctx.constant(1 - dampening, grad)
            new_buffer = grad if is_first_step else moved
            grad = grad + new_buffer * ctx.constant(momentum, grad) if nesterov else new_buffer
            old.append(buffer)
            results.append(new_buffer)
        results.insert(0, parameter - ctx.number(lr, parameter) * grad)
        for position, result in enumerate(step.kept(old, results)):
            new[position].append(result)
    return tuple(array for group in new for array in group)


register("_fused_sgd", _sgd)


def _adagrad(
    ctx: Context,
    self: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    *,
    lr: Any,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Array | None = None,
    found_inf: Array | None = None,
) -> tuple[Array, ...]:
    step = _Step(ctx, maximize, grad_scale, found_inf)
    new: list[list[Array]] = [[], [], []]
    for index, parameter in enumerate(self):
        unscaled = step.unscaled(grads[index])
        grad = step.descending(unscaled)
        if weight_decay:
            grad = grad + parameter * ctx.constant(weight_decay, parameter)
        one = ctx.constant(1, parameter)
        count = ctx.scalar(state_steps[index].reshape(()), parameter)
        rate = ctx.number(lr, parameter) / (one + (count - one) * ctx.constant(lr_decay, parameter))
        total = state_sums[index] + grad * grad
        updated = parameter - rate * grad / (lax.sqrt(total) + ctx.constant(eps, parameter))
        old = [parameter, grads[index], state_sums[index]]
        for position, result in enumerate(step.kept(old, [updated, unscaled, total])):
            new[position].append(result)
    steps = state_steps if len(ctx.outputs) > 3 * len(self) else ()  # the tensor_lr overload doesn't return them
    return *(array for group in new for array in group), *steps


register("_fused_adagrad", _adagrad)


def _unscale(ctx: Context, self: Tensors, found_inf: Array, inv_scale: Array) -> tuple[Array, ...]:
    """Gradients times the inverse scale; found_inf becomes 1 if one of them wasn't finite."""
    found = found_inf
    for grad in self:
        found = jnp.where(jnp.all(lax.is_finite(grad)), found, ctx.fill(1, found))
    return *(grad * ctx.scalar(inv_scale.reshape(()), grad) for grad in self), found


register("_amp_foreach_non_finite_check_and_unscale", _unscale)


def _update_scale(
    ctx: Context,
    self: Array,
    growth_tracker: Array,
    found_inf: Array,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> tuple[Array, Array]:
    overflowed = found_inf.reshape(self.shape) != 0
    successes = growth_tracker + ctx.constant(1, growth_tracker)
    due = successes == growth_interval
    grown = self * ctx.constant(scale_growth_factor, self)
    grown = jnp.where(due.reshape(self.shape) & lax.is_finite(grown), grown, self)
    scale = jnp.where(overflowed, self * ctx.constant(scale_backoff_factor, self), grown)
    reset = due | overflowed.reshape(due.shape)
    return scale, jnp.where(reset, ctx.fill(0, growth_tracker), successes)


register("_amp_update_scale", _update_scale)

"""Connectionist temporal classification, with its backward.

log_probs [time, batch, classes]; targets [batch, labels] or all of them one after the other; lengths are numbers or
int tensors. The extended label sequence puts a blank before, between and after the labels: 2 S + 1 positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers

Lengths = Any  # a sequence of ints, or an int array [batch]


def _labels(targets: Array, target_lengths: Array, count: int) -> Array:
    """[batch, count] of labels, whatever beyond each target's length."""
    if targets.ndim == 1:
        starts = jnp.cumsum(target_lengths) - target_lengths
        index = starts[:, None] + jnp.arange(count)
        return jnp.take(targets, jnp.minimum(index, max(targets.shape[0] - 1, 0)))
    return targets[:, :count]


def _log_sum(parts: Sequence[Array]) -> Array:
    """log of the sum of exponentials, -inf where all parts are, with a gradient of 0 there."""
    top = lax.stop_gradient(jnp.max(jnp.stack(list(parts)), axis=0))
    top = jnp.where(top == -np.inf, jnp.zeros_like(top), top)
    total = sum((lax.exp(p - top) for p in parts[1:]), lax.exp(parts[0] - top))
    nothing = total == 0
    return jnp.where(nothing, -jnp.inf, lax.log(jnp.where(nothing, jnp.ones_like(total), total)) + top)


def _alignments(
    ctx: Context,
    log_probs: Array,
    targets: Array,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int,
    positions: int,
) -> tuple[Array, Array]:
    """(negative log likelihood [batch], log alpha [batch, time, positions])."""
    inputs, lengths = jnp.asarray(input_lengths, "int64"), jnp.asarray(target_lengths, "int64")
    position = jnp.arange(positions)
    labels = _labels(targets, lengths, positions // 2)
    extended = jnp.full((log_probs.shape[1], positions), blank, "int64")
    if positions > 1:
        extended = extended.at[:, 1::2].set(lax.convert_element_type(labels, "int64"))
    emitted = jnp.take_along_axis(log_probs, jnp.broadcast_to(extended, (log_probs.shape[0], *extended.shape)), axis=2)
    used = position <= 2 * lengths[:, None]
    skips = jnp.pad(extended[:, 2:] != extended[:, :-2], ((0, 0), (2, 0))) & (extended != blank) & (position >= 2)
    impossible = lax.full(extended.shape, -np.inf, log_probs.dtype)

    def shifted(alpha: Array, by: int) -> Array:
        return jnp.pad(alpha, ((0, 0), (by, 0)), constant_values=-np.inf)[:, :positions]

    def step(alpha: Array, emitted_now: Array) -> tuple[Array, Array]:
        reachable = _log_sum([alpha, shifted(alpha, 1), jnp.where(skips, shifted(alpha, 2), impossible)])
        alpha = jnp.where(used, reachable + emitted_now, impossible)
        return alpha, alpha

    first = jnp.where((position < 2) & used, emitted[0], impossible)
    _, rest = lax.scan(step, first, emitted[1:])
    alphas = jnp.concatenate([first[None], rest]).swapaxes(0, 1)
    last_time = jnp.take_along_axis(alphas, (inputs - 1)[:, None, None], axis=1)[:, 0]
    at_blank = jnp.take_along_axis(last_time, (2 * lengths)[:, None], axis=1)[:, 0]
    at_label = jnp.take_along_axis(last_time, jnp.maximum(2 * lengths - 1, 0)[:, None], axis=1)[:, 0]
    at_label = jnp.where(lengths > 0, at_label, -jnp.inf)
    return -_log_sum([at_blank, at_label]), alphas


@lowers("_ctc_loss")
def _ctc_loss(
    ctx: Context,
    log_probs: Array,
    targets: Array,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Array, Array]:
    value = ctx.outputs[1]
    assert value is not None
    args = (targets, input_lengths, target_lengths, blank, value.shape[2])
    loss, alphas = _alignments(ctx, ctx.accumulated(log_probs), *args)
    return loss, alphas


@lowers("_ctc_loss_backward")
def _ctc_loss_backward(
    ctx: Context,
    grad: Array,
    log_probs: Array,
    targets: Array,
    input_lengths: Lengths,
    target_lengths: Lengths,
    neg_log_likelihood: Array,
    log_alpha: Array,
    blank: int,
    zero_infinity: bool = False,
) -> Array:
    """As in ATen, the gradient of log-probabilities that come from a log_softmax: exp(log_probs) minus the posterior
    of each class, so that the rows sum to 0. The posterior is minus the plain derivative of the loss."""
    wide = ctx.accumulated(log_probs)

    def loss(x: Array) -> Array:
        return _alignments(ctx, x, targets, input_lengths, target_lengths, blank, log_alpha.shape[2])[0]

    likelihood, derivative = jax.vjp(loss, wide)
    (slope,) = derivative(jnp.ones_like(likelihood))
    result = (lax.exp(wide) + slope) * ctx.accumulated(grad)[None, :, None]
    time = jnp.arange(wide.shape[0])[:, None, None]
    taking_part = time < jnp.asarray(input_lengths, "int64")[None, :, None]
    if zero_infinity:
        taking_part &= (neg_log_likelihood != np.inf)[None, :, None]
    return jnp.where(taking_part, result, jnp.zeros_like(result))

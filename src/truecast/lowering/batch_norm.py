"""Batch normalization in each form that PyTorch dispatches, and its backward.

The statistics are per channel (dim 1), over all other dims. The running variance takes the unbiased variance,
the normalization the biased one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.normalization import Results
from truecast.lowering.registry import lowers


def _axes(x: Array) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _per_channel(x: Array, like: Array) -> Array:
    return x.reshape(1, -1, *(1,) * (like.ndim - 2))


def _apply(x: Array, mean: Array, rstd: Array, weight: Array | None, bias: Array | None) -> Array:
    out = (x - _per_channel(mean, x)) * _per_channel(rstd, x)
    if weight is not None:
        out = out * _per_channel(weight, x)
    return out if bias is None else out + _per_channel(bias, x)


def _statistics(ctx: Context, x: Array) -> tuple[Array, Array]:
    """Mean and biased variance of each channel."""
    mean = ctx.mean(x, _axes(x))
    centered = x - _per_channel(mean, x)
    return mean, ctx.mean(centered * centered, _axes(x))


def _rstd(ctx: Context, variance: Array, eps: float) -> Array:
    return lax.rsqrt(variance + ctx.constant(eps, variance))


def _moved(ctx: Context, running: Array | None, batch: Array, momentum: Any) -> Array | None:
    """The running statistic, moved towards that of the batch by `momentum`."""
    if running is None:
        return None
    return batch * ctx.number(momentum, batch) + running * ctx.number(1 - momentum, running)


def _train(
    ctx: Context,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    momentum: Any,
    eps: float,
) -> tuple[Results, Results]:
    """(output, mean, rstd) and the new (running mean, running variance)."""
    mean, variance = _statistics(ctx, x)
    rstd = _rstd(ctx, variance, eps)
    count = x.size // x.shape[1]
    # As in eager, one element a channel has no unbiased variance: 0 / 0.
    unbiased = variance * (ctx.constant(count, variance) / ctx.constant(count - 1, variance))
    moved = _moved(ctx, running_mean, mean, momentum), _moved(ctx, running_var, unbiased, momentum)
    return (_apply(x, mean, rstd, weight, bias), mean, rstd), moved


def _evaluate(
    ctx: Context,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    eps: float,
) -> Results:
    """The output from the running statistics, and the empty statistics that eager returns with it."""
    out = _apply(x, running_mean, _rstd(ctx, running_var, eps), weight, bias)
    return out, lax.full((0,), 0, x.dtype), lax.full((0,), 0, x.dtype)


@lowers("native_batch_norm _native_batch_norm_legit")
def _batch_norm(
    ctx: Context,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    training: bool = False,
    momentum: Any = 0.0,
    eps: float = 0.0,
) -> Results:
    if not training:
        assert running_mean is not None and running_var is not None
        return _evaluate(ctx, input, weight, bias, running_mean, running_var, eps)
    if running_mean is not None:
        ctx.unsupported(
            "in training writes its running statistics, which a functional program has to return",
            help="capture it as aten._native_batch_norm_legit_functional",
        )
    return _train(ctx, input, weight, bias, None, None, momentum, eps)[0]


@lowers("_native_batch_norm_legit_functional")
def _batch_norm_functional(
    ctx: Context,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    training: bool,
    momentum: Any,
    eps: float,
) -> Results:
    if not training:
        return *_evaluate(ctx, input, weight, bias, running_mean, running_var, eps), running_mean, running_var
    results, moved = _train(ctx, input, weight, bias, running_mean, running_var, momentum, eps)
    return *results, *moved


@lowers("_native_batch_norm_legit_no_training")
def _batch_norm_no_training(
    ctx: Context,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    momentum: Any,
    eps: float,
) -> Results:
    return _evaluate(ctx, input, weight, bias, running_mean, running_var, eps)


def _reserve(ctx: Context) -> Array:
    """The empty uint8 tensor that CPU kernels return where cuDNN keeps its workspace."""
    value = ctx.outputs[3]
    return lax.full((0,) if value is None else value.shape, 0, "uint8")


@lowers("_batch_norm_no_update")
def _batch_norm_no_update(
    ctx: Context,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    momentum: Any,
    eps: float,
) -> Results:
    return *_evaluate(ctx, input, weight, bias, running_mean, running_var, eps), _reserve(ctx)


@lowers("_batch_norm_with_update_functional")
def _batch_norm_with_update(
    ctx: Context,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    momentum: Any,
    eps: float,
) -> Results:
    results, moved = _train(ctx, input, weight, bias, running_mean, running_var, momentum, eps)
    return *results, _reserve(ctx), *moved


@lowers("native_batch_norm_backward")
def _batch_norm_backward(
    ctx: Context,
    grad_out: Array,
    input: Array,
    weight: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    save_mean: Array | None,
    save_invstd: Array | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Results:
    if train:
        assert save_mean is not None and save_invstd is not None
        mean, rstd = save_mean, save_invstd
    else:
        assert running_mean is not None and running_var is not None
        mean, rstd = running_mean, _rstd(ctx, running_var, eps)
    axes, scale = _axes(input), _per_channel(rstd, input)
    normalized = (input - _per_channel(mean, input)) * scale
    along, total = ctx.sum(grad_out * normalized, axes), ctx.sum(grad_out, axes)
    grad = grad_out
    if train:
        count = ctx.constant(input.size // input.shape[1], input)
        grad = grad - _per_channel(total / count, input) - normalized * _per_channel(along / count, input)
    grad = grad * (scale if weight is None else scale * _per_channel(weight, input))
    return grad, along if ctx.wanted[1] else None, total if ctx.wanted[2] else None


@lowers("batch_norm_backward")
def _new_batch_norm_backward(
    ctx: Context,
    grad_out: Array,
    input: Array,
    weight: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    save_mean: Array | None,
    save_var: Array | None,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: Any,
) -> Results:
    # On the CPU `save_var` holds 1 / sqrt(variance + eps), under either name.
    return _batch_norm_backward(
        ctx, grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask
    )

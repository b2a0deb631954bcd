"""Softmax, layer, group, batch and RMS norms, weight norm, and their backwards.

Sums and means are held in the accumulate dtype (law N4); everything between them is in the compute dtype.
On the CPU, BatchNorm and InstanceNorm dispatch native_batch_norm, which writes its running statistics without
saying so in its schema: capture replaces it by _native_batch_norm_legit_functional, which returns them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from truecast import dtypes
from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers

Results = tuple[Array | None, ...]


# ---- softmax -------------------------------------------------------------------------------------------------


def _along(x: Array, dim: int) -> tuple[Array, int]:
    """x with at least one dim, and `dim` counted from the front."""
    return (x.reshape(1), 0) if x.ndim == 0 else (x, dim % x.ndim)


def _shifted(x: Array, axis: int) -> Array:
    """x minus its maximum along axis, so that no exponential overflows. A row of -inf becomes NaN, as in eager."""
    return x - lax.stop_gradient(jnp.max(x, axis=axis, keepdims=True)) if x.size else x


@lowers("_softmax")
def _softmax(ctx: Context, self: Array, dim: int, half_to_float: bool = False) -> Array:
    x, axis = _along(self, dim)
    exponentials = lax.exp(_shifted(x, axis))
    return (exponentials / ctx.sum(exponentials, (axis,), keepdims=True)).reshape(self.shape)


@lowers("_safe_softmax")
def _safe_softmax(ctx: Context, self: Array, dim: int) -> Array:
    """Softmax in which a row of -inf gives zeros: attention in which everything is masked."""
    x, axis = _along(self, dim)
    masked = jnp.all(x == -np.inf, axis=axis, keepdims=True)
    return jnp.where(masked, ctx.fill(0, x), _softmax(ctx, x, axis)).reshape(self.shape)


@lowers("_log_softmax")
def _log_softmax(ctx: Context, self: Array, dim: int, half_to_float: bool = False) -> Array:
    x, axis = _along(self, dim)
    shifted = _shifted(x, axis)
    return (shifted - lax.log(ctx.sum(lax.exp(shifted), (axis,), keepdims=True))).reshape(self.shape)


@lowers("_softmax_backward_data")
def _softmax_backward(ctx: Context, grad_output: Array, output: Array, dim: int, input_dtype: Any) -> Array:
    grad, axis = _along(grad_output, dim)
    y = output.reshape(grad.shape)
    return ((grad - ctx.sum(grad * y, (axis,), keepdims=True)) * y).reshape(grad_output.shape)


@lowers("_log_softmax_backward_data")
def _log_softmax_backward(ctx: Context, grad_output: Array, output: Array, dim: int, input_dtype: Any) -> Array:
    grad, axis = _along(grad_output, dim)
    y = output.reshape(grad.shape)
    return (grad - lax.exp(y) * ctx.sum(grad, (axis,), keepdims=True)).reshape(grad_output.shape)


# ---- layer, RMS and group norm ---------------------------------------------------------------------------------


def _moments(ctx: Context, x: Array, axes: Sequence[int], eps: float) -> tuple[Array, Array, Array]:
    """(x - mean, mean, 1 / sqrt(variance + eps)), the last two with kept dims."""
    mean = ctx.mean(x, axes, keepdims=True)
    centered = x - mean
    variance = ctx.mean(centered * centered, axes, keepdims=True)
    return centered, mean, lax.rsqrt(variance + ctx.constant(eps, x))


def _affine(x: Array, weight: Array | None, bias: Array | None) -> Array:
    if weight is not None:
        x = x * weight
    return x if bias is None else x + bias


@lowers("native_layer_norm")
def _layer_norm(
    ctx: Context, input: Array, normalized_shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float
) -> Results:
    axes = range(input.ndim - len(normalized_shape), input.ndim)
    centered, mean, rstd = _moments(ctx, input, tuple(axes), eps)
    return _affine(centered * rstd, weight, bias), mean, rstd


@lowers("native_layer_norm_backward")
def _layer_norm_backward(
    ctx: Context,
    grad_out: Array,
    input: Array,
    normalized_shape: Sequence[int],
    mean: Array,
    rstd: Array,
    weight: Array | None,
    bias: Array | None,
    output_mask: Sequence[bool],
) -> Results:
    leading = tuple(range(input.ndim - len(normalized_shape)))
    axes = tuple(range(len(leading), input.ndim))
    normalized = (input - mean) * rstd
    grad = grad_out if weight is None else grad_out * weight
    return (
        _normalized_gradient(ctx, grad, normalized, rstd, axes),
        ctx.sum(grad_out * normalized, leading) if ctx.wanted[1] else None,
        ctx.sum(grad_out, leading) if ctx.wanted[2] else None,
    )


def _normalized_gradient(ctx: Context, grad: Array, normalized: Array, rstd: Array, axes: Sequence[int]) -> Array:
    """The gradient of x where normalized = (x - mean) * rstd over axes and grad is that of `normalized`."""
    constant_part = ctx.mean(grad, axes, keepdims=True)
    parallel_part = ctx.mean(grad * normalized, axes, keepdims=True)
    return (grad - constant_part - normalized * parallel_part) * rstd


@lowers("_fused_rms_norm")
def _rms_norm(
    ctx: Context, input: Array, normalized_shape: Sequence[int], weight: Array | None, eps: float | None
) -> Results:
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    if eps is None:  # as in ATen: the machine epsilon of the opmath type, whatever the policy computes in
        eps = 2.0 ** -dtypes.opmath(dtypes.of(input.dtype)).mantissa_bits
    rstd = lax.rsqrt(ctx.mean(input * input, axes, keepdims=True) + ctx.constant(eps, input))
    return _affine(input * rstd, weight, None), rstd


@lowers("_fused_rms_norm_backward")
def _rms_norm_backward(
    ctx: Context,
    grad_out: Array,
    input: Array,
    normalized_shape: Sequence[int],
    rstd: Array,
    weight: Array | None,
    output_mask: Sequence[bool],
) -> Results:
    leading = tuple(range(input.ndim - len(normalized_shape)))
    axes = tuple(range(len(leading), input.ndim))
    normalized = input * rstd
    grad = grad_out if weight is None else grad_out * weight
    grad_input = (grad - normalized * ctx.mean(grad * normalized, axes, keepdims=True)) * rstd
    return grad_input, ctx.sum(grad_out * normalized, leading) if ctx.wanted[1] else None


@lowers("native_group_norm")
def _group_norm(
    ctx: Context,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> Results:
    grouped = input.reshape(N, group, C // group, HxW)
    centered, mean, rstd = _moments(ctx, grouped, (2, 3), eps)
    out = (centered * rstd).reshape(input.shape)
    per_channel = (1, C, *(1,) * (input.ndim - 2))
    out = _affine(
        out,
        None if weight is None else weight.reshape(per_channel),
        None if bias is None else bias.reshape(per_channel),
    )
    return out, mean.reshape(N, group), rstd.reshape(N, group)


@lowers("native_group_norm_backward")
def _group_norm_backward(
    ctx: Context,
    grad_out: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> Results:
    grouped = (N, group, C // group, HxW)
    scale = rstd.reshape(N, group, 1, 1)
    normalized = (input.reshape(grouped) - mean.reshape(N, group, 1, 1)) * scale
    upstream = grad_out.reshape(grouped)
    grad = upstream if weight is None else upstream * weight.reshape(1, group, C // group, 1)
    return (
        _normalized_gradient(ctx, grad, normalized, scale, (2, 3)).reshape(input.shape),
        ctx.sum(upstream * normalized, (0, 3)).reshape(C) if ctx.wanted[1] else None,
        ctx.sum(upstream, (0, 3)).reshape(C) if ctx.wanted[2] else None,
    )


# ---- weight norm -------------------------------------------------------------------------------------------------


def _all_but(x: Array, dim: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(x.ndim) if axis != dim % x.ndim)


@lowers("_weight_norm_interface")
def _weight_norm(ctx: Context, v: Array, g: Array, dim: int = 0) -> Results:
    norms = lax.sqrt(ctx.sum(v * v, _all_but(v, dim), keepdims=True))
    return v * (g / norms), norms


@lowers("_weight_norm_interface_backward")
def _weight_norm_backward(
    ctx: Context, grad_w: Array, saved_v: Array, saved_g: Array, saved_norms: Array, dim: int
) -> Results:
    along = ctx.sum(grad_w * saved_v, _all_but(saved_v, dim), keepdims=True)
    grad_v = saved_g / saved_norms * (grad_w - saved_v * (along / (saved_norms * saved_norms)))
    return grad_v, along / saved_norms

"""Activations and their backwards, in the formulas of PyTorch's CPU kernels.

Operands arrive in the compute dtype; scalar parameters come as arrays of it. Where an activation has a kink,
the comparison says which side a NaN takes: eager's side (law N7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.elementwise import is_complex, like
from truecast.lowering.registry import lowers, register


def _activation(function: Callable[..., Array]) -> Callable[..., Array]:
    """A rule for `function(self, parameter, ...)` whose parameters are scalars by their schema names."""

    def rule(ctx: Context, self: Array, **parameters: Any) -> Array:
        return function(self, **{name: ctx.broadcast(p, self) for name, p in parameters.items()})

    return rule


def _backward(function: Callable[..., Array]) -> Callable[..., Array]:
    """A rule for `function(grad, self, parameter, ...)`."""

    def rule(ctx: Context, grad_output: Array, self: Array, **parameters: Any) -> Array:
        return function(grad_output, self, **{name: ctx.broadcast(p, self) for name, p in parameters.items()})

    return rule


def _zero(x: Array) -> Array:
    return like(x, 0)


def _one(x: Array) -> Array:
    return like(x, 1)


def _relu(x: Array) -> Array:
    return lax.max(x, _zero(x))


def softplus_of(x: Array) -> Array:
    """log(1 + exp(x)), without overflow for large x, which is its own answer there."""
    return lax.select(lax.gt(x, like(x, 20)), x, lax.log1p(lax.exp(x)))


# Piecewise linear ------------------------------------------------------------------------------------------


def _hardtanh(x: Array, min_val: Array | float = -1, max_val: Array | float = 1) -> Array:
    low = like(x, min_val) if isinstance(min_val, int | float) else min_val
    high = like(x, max_val) if isinstance(max_val, int | float) else max_val
    return lax.min(lax.max(x, low), high)


def _hardtanh_backward(grad: Array, x: Array, min_val: Array, max_val: Array) -> Array:
    outside = lax.bitwise_or(lax.le(x, min_val), lax.ge(x, max_val))
    return lax.select(outside, _zero(grad), grad)


def _relu6_of(x: Array) -> Array:
    return lax.min(lax.max(x, _zero(x)), like(x, 6))


def _hardsigmoid(x: Array) -> Array:
    return lax.div(_relu6_of(lax.add(x, like(x, 3))), like(x, 6))


def _hardsigmoid_backward(grad: Array, x: Array) -> Array:
    inside = lax.bitwise_and(lax.gt(x, like(x, -3)), lax.lt(x, like(x, 3)))
    sixth = float(np.float32(1 / 6))  # a float32 constant in eager, in float64 as well
    return lax.select(inside, lax.mul(grad, like(x, sixth)), _zero(grad))


def _hardswish(x: Array) -> Array:
    return lax.div(lax.mul(x, _relu6_of(lax.add(x, like(x, 3)))), like(x, 6))


def _hardswish_backward(grad: Array, x: Array) -> Array:
    slope = lax.add(lax.div(x, like(x, 3)), like(x, 0.5))
    inner = lax.select(lax.lt(x, like(x, 3)), lax.mul(grad, slope), grad)
    return lax.select(lax.le(x, like(x, -3)), _zero(grad), inner)


def _leaky_relu(x: Array, negative_slope: Array) -> Array:
    return lax.select(lax.gt(x, _zero(x)), x, lax.mul(x, negative_slope))


def _hardshrink(x: Array, lambd: Array) -> Array:
    inside = lax.bitwise_and(lax.ge(x, lax.neg(lambd)), lax.le(x, lambd))
    return lax.select(inside, _zero(x), x)


def _shrink_backward(grad: Array, x: Array, lambd: Array) -> Array:
    inside = lax.bitwise_and(lax.ge(x, lax.neg(lambd)), lax.le(x, lambd))
    return lax.select(inside, _zero(grad), grad)


def _softshrink(x: Array, lambd: Array) -> Array:
    # x * 0 in the middle: a NaN stays one.
    below = lax.select(lax.lt(x, lax.neg(lambd)), lax.add(x, lambd), lax.mul(x, _zero(x)))
    return lax.select(lax.gt(x, lambd), lax.sub(x, lambd), below)


def _threshold(x: Array, threshold: Array, value: Array) -> Array:
    return lax.select(lax.le(x, threshold), value, x)


def _threshold_backward(grad: Array, x: Array, threshold: Array) -> Array:
    return lax.select(lax.le(x, threshold), _zero(grad), grad)


# Smooth ----------------------------------------------------------------------------------------------------

_SQRT_HALF = math.sqrt(0.5)
_INVERSE_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
_TANH_SCALE, _TANH_CUBE = math.sqrt(2 / math.pi), 0.044715


def _normal_cdf(x: Array) -> Array:
    return lax.mul(like(x, 0.5), lax.add(_one(x), lax.erf(lax.mul(x, like(x, _SQRT_HALF)))))


def _gelu_tanh_argument(x: Array) -> Array:
    cube = lax.mul(lax.mul(x, x), x)
    return lax.mul(like(x, _TANH_SCALE), lax.add(x, lax.mul(like(x, _TANH_CUBE), cube)))


@lowers("gelu")
def _gelu(ctx: Context, self: Array, approximate: str = "none") -> Array:
    if approximate == "none":
        return lax.mul(self, _normal_cdf(self))
    bell = lax.add(_one(self), lax.tanh(_gelu_tanh_argument(self)))
    return lax.mul(lax.mul(like(self, 0.5), self), bell)


@lowers("gelu_backward")
def _gelu_backward(ctx: Context, grad_output: Array, self: Array, approximate: str = "none") -> Array:
    x, half = self, like(self, 0.5)
    if approximate == "none":
        density = lax.mul(lax.exp(lax.mul(lax.mul(x, x), like(x, -0.5))), like(x, _INVERSE_SQRT_2PI))
        return lax.mul(grad_output, lax.add(_normal_cdf(x), lax.mul(x, density)))
    tanh = lax.tanh(_gelu_tanh_argument(x))
    left = lax.mul(half, lax.add(_one(x), tanh))
    slope = lax.add(_one(x), lax.mul(like(x, 3 * _TANH_CUBE), lax.mul(x, x)))
    sech2 = lax.sub(_one(x), lax.mul(tanh, tanh))
    right = lax.mul(lax.mul(lax.mul(half, x), sech2), lax.mul(like(x, _TANH_SCALE), slope))
    return lax.mul(grad_output, lax.add(left, right))


def _silu(x: Array) -> Array:
    return lax.div(x, lax.add(_one(x), lax.exp(lax.neg(x))))


def _silu_backward(grad: Array, x: Array) -> Array:
    sigmoid = lax.logistic(x)
    inner = lax.add(_one(x), lax.mul(x, lax.sub(_one(x), sigmoid)))
    return lax.mul(lax.mul(grad, sigmoid), inner)


def _mish(x: Array) -> Array:
    return lax.mul(x, lax.tanh(softplus_of(x)))


def _mish_backward(grad: Array, x: Array) -> Array:
    tanh, sigmoid = lax.tanh(softplus_of(x)), lax.logistic(x)
    sech2 = lax.sub(_one(x), lax.mul(tanh, tanh))
    return lax.mul(grad, lax.add(tanh, lax.mul(lax.mul(x, sigmoid), sech2)))


@lowers("elu")
def _elu(ctx: Context, self: Array, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Array:
    alpha, scale, input_scale = (ctx.broadcast(p, self) for p in (alpha, scale, input_scale))
    negative = lax.mul(lax.expm1(lax.mul(self, input_scale)), lax.mul(alpha, scale))
    return lax.select(lax.lt(self, _zero(self)), negative, lax.mul(self, scale))


@lowers("celu")
def _celu(ctx: Context, self: Array, alpha: Any = 1.0) -> Array:
    alpha = ctx.broadcast(alpha, self)
    return _elu(ctx, self, alpha, 1, lax.div(_one(self), alpha))


@lowers("elu_backward")
def _elu_backward(
    ctx: Context,
    grad_output: Array,
    alpha: Any,
    scale: Any,
    input_scale: Any,
    is_result: bool,
    self_or_result: Array,
) -> Array:
    x = self_or_result
    alpha, scale, input_scale = (ctx.broadcast(p, x) for p in (alpha, scale, input_scale))
    if is_result:
        inner = lax.add(x, lax.mul(alpha, scale))
    else:
        inner = lax.mul(lax.mul(alpha, scale), lax.exp(lax.mul(x, input_scale)))
    negative = lax.mul(lax.mul(grad_output, input_scale), inner)
    return lax.select(lax.le(x, _zero(x)), negative, lax.mul(grad_output, scale))


def _softplus(x: Array, beta: Array, threshold: Array) -> Array:
    scaled = lax.mul(x, beta)
    return lax.select(lax.gt(scaled, threshold), x, lax.div(lax.log1p(lax.exp(scaled)), beta))


def _softplus_backward(grad: Array, x: Array, beta: Array, threshold: Array) -> Array:
    scaled = lax.mul(x, beta)
    power = lax.exp(scaled)
    slope = lax.div(lax.mul(grad, power), lax.add(power, _one(x)))
    return lax.select(lax.gt(scaled, threshold), grad, slope)


@lowers("log_sigmoid_forward")
def _log_sigmoid_forward(ctx: Context, self: Array) -> tuple[Array, Array]:
    """The result, and exp(-|x|) as the CPU kernel saves it (a CUDA capture declares an empty buffer)."""
    power = lax.exp(lax.neg(lax.abs(self)))
    result = lax.sub(lax.min(_zero(self), self), lax.log1p(power))
    buffer = ctx.outputs[1]
    if buffer is not None and buffer.shape != self.shape:
        return result, lax.full(buffer.shape, 0, self.dtype)
    return result, power


@lowers("log_sigmoid_backward")
def _log_sigmoid_backward(ctx: Context, grad_output: Array, self: Array, buffer: Array) -> Array:
    """From x alone: the buffer is exp(-|x|) on the CPU and empty elsewhere."""
    power = lax.exp(lax.neg(lax.abs(self)))
    share = lax.div(power, lax.add(_one(self), power))
    negative = lax.lt(self, _zero(self))
    return lax.mul(grad_output, lax.select(negative, lax.sub(_one(self), share), share))


def _clamped_probability(x: Array, eps: float) -> Array:
    return lax.min(lax.max(x, like(x, eps)), like(x, 1 - eps))


@lowers("logit")
def _logit(ctx: Context, self: Array, eps: float | None = None) -> Array:
    x = self if eps is None else _clamped_probability(self, eps)
    return lax.log(lax.div(x, lax.sub(_one(x), x)))


@lowers("logit_backward")
def _logit_backward(ctx: Context, grad_output: Array, self: Array, eps: float | None = None) -> Array:
    low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
    outside = lax.bitwise_or(lax.lt(self, like(self, low)), lax.gt(self, like(self, high)))
    slope = lax.div(grad_output, lax.mul(self, lax.sub(_one(self), self)))
    return lax.select(outside, like(self, math.nan if eps is None else 0), slope)


def _conjugate(x: Array) -> Array:
    return lax.conj(x) if is_complex(x) else x


@lowers("tanh_backward")
def _tanh_backward(ctx: Context, grad_output: Array, output: Array) -> Array:
    return lax.mul(grad_output, _conjugate(lax.sub(_one(output), lax.mul(output, output))))


@lowers("sigmoid_backward")
def _sigmoid_backward(ctx: Context, grad_output: Array, output: Array) -> Array:
    return lax.mul(grad_output, _conjugate(lax.mul(lax.sub(_one(output), output), output)))


for _names, _function in {
    "relu": _relu,
    "hardtanh": _hardtanh,
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "leaky_relu": _leaky_relu,
    "hardshrink": _hardshrink,
    "softshrink": _softshrink,
    "threshold": _threshold,
    "silu": _silu,
    "mish": _mish,
    "softplus": _softplus,
    "sigmoid": lax.logistic,
}.items():
    register(_names, _activation(_function))

_BACKWARDS: dict[str, Callable[..., Array]] = {
    "hardtanh_backward": _hardtanh_backward,
    "hardsigmoid_backward": _hardsigmoid_backward,
    "hardswish_backward": _hardswish_backward,
    "softshrink_backward": _shrink_backward,
    "threshold_backward": _threshold_backward,
    "silu_backward": _silu_backward,
    "mish_backward": _mish_backward,
    "softplus_backward": _softplus_backward,
}
for _names, _slope in _BACKWARDS.items():
    register(_names, _backward(_slope))
register(
    "hardshrink_backward",
    lambda ctx, grad_out, self, lambd: _shrink_backward(grad_out, self, ctx.broadcast(lambd, self)),
)


@lowers("leaky_relu_backward")
def _leaky_relu_backward(
    ctx: Context, grad_output: Array, self: Array, negative_slope: Any, self_is_result: bool
) -> Array:
    scaled = lax.mul(grad_output, ctx.broadcast(negative_slope, grad_output))
    return lax.select(lax.gt(self, _zero(self)), grad_output, scaled)


@lowers("_prelu_kernel")
def _prelu(ctx: Context, self: Array, weight: Array) -> Array:
    return lax.select(lax.gt(self, _zero(self)), self, lax.mul(weight, self))


@lowers("_prelu_kernel_backward")
def _prelu_backward(ctx: Context, grad_output: Array, self: Array, weight: Array) -> tuple[Array, Array]:
    positive = lax.gt(self, _zero(self))
    to_self = lax.select(positive, grad_output, lax.mul(weight, grad_output))
    return to_self, lax.select(positive, _zero(self), lax.mul(self, grad_output))


@lowers("rrelu_with_noise_backward")
def _rrelu_backward(
    ctx: Context,
    grad_output: Array,
    self: Array,
    noise: Array,
    lower: Any,
    upper: Any,
    training: bool,
    self_is_result: bool,
) -> Array:
    """In training, the noise is the slope that was drawn; in evaluation, the slope is the middle one."""
    if training:
        return lax.mul(noise, grad_output)
    slope = lax.div(lax.add(ctx.broadcast(lower, self), ctx.broadcast(upper, self)), like(self, 2))
    return lax.select(lax.gt(self, _zero(self)), grad_output, lax.mul(grad_output, slope))


@lowers("native_dropout_backward _masked_scale")
def _dropout_backward(
    ctx: Context, mask: Array, scale: Any, grad_output: Array | None = None, self: Array | None = None
) -> Array:
    grad = grad_output if grad_output is not None else self
    assert grad is not None
    kept = mask if mask.dtype == np.dtype(bool) else lax.ne(mask, like(mask, 0))
    kept = lax.broadcast_in_dim(kept, grad.shape, range(grad.ndim - kept.ndim, grad.ndim))
    return lax.mul(grad, lax.select(kept, ctx.broadcast(ctx.number(scale, grad), grad), _zero(grad)))


@lowers("glu")
def _glu(ctx: Context, self: Array, dim: int = -1) -> Array:
    kept, gate = _halves(self, dim)
    return lax.mul(kept, lax.logistic(gate))


@lowers("glu_backward")
def _glu_backward(ctx: Context, grad_output: Array, self: Array, dim: int) -> Array:
    kept, gate = _halves(self, dim)
    share = lax.logistic(gate)
    slope = lax.mul(lax.mul(lax.sub(_one(share), share), share), kept)
    gradients = (lax.mul(share, grad_output), lax.mul(slope, grad_output))
    return lax.concatenate(gradients, dim % self.ndim)


def _halves(x: Array, dim: int) -> tuple[Array, Array]:
    axis = dim % x.ndim
    half = x.shape[axis] // 2
    return lax.slice_in_dim(x, 0, half, axis=axis), lax.slice_in_dim(x, half, 2 * half, axis=axis)

"""Random draws (law N8): counter-based threefry bits from the node's own key, whatever the Numerics.

Values are formed in the drawing dtype, float32 (float64 where the program's result is float64), from bits whose
number depends on the Graph alone; the engine rounds the value to the result's dtype. So two policies see the
same bits, and a bfloat16 draw is the rounded float32 draw. The sequences are not those of PyTorch's Mersenne twister;
the distributions are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from truecast import dtypes
from truecast.dtypes import DType
from truecast.lowering.context import Array, Context, is_number
from truecast.lowering.registry import lowers, register
from truecast.lowering.sorting import ordered


def drawing_dtype(dtype: DType) -> Any:
    return jnp.float64 if dtypes.real_of(dtype) is dtypes.float64 else jnp.float32


def _drawn(x: Any, dtype: Any, shape: Sequence[int]) -> Array:
    """A parameter of a distribution (a number or a tensor), in the drawing dtype, broadcast."""
    if isinstance(x, bool | int | float):
        return lax.full(tuple(shape), x, dtype)
    wide = lax.convert_element_type(x, dtype)
    return lax.broadcast_in_dim(wide, tuple(shape), range(len(shape) - wide.ndim, len(shape)))


def unit(key: Array, shape: Sequence[int], dtype: Any, digits: int = 0) -> Array:
    """Uniform over the multiples of 2**-digits in [0, 1); digits: all that `dtype` has if 0."""
    bits = 64 if dtype == jnp.float64 else 32
    digits = digits or (53 if bits == 64 else 24)
    words = jax.random.bits(key, tuple(shape), jnp.uint64 if bits == 64 else jnp.uint32)
    count = lax.shift_right_logical(words, lax.full_like(words, bits - digits))
    return lax.mul(lax.convert_element_type(count, dtype), lax.full(tuple(shape), 2.0**-digits, dtype))


def open_unit(key: Array, shape: Sequence[int], dtype: Any) -> Array:
    """Uniform over (0, 1): what would be 0 is half the least step instead."""
    u = unit(key, shape, dtype)
    return lax.max(u, lax.full_like(u, 2.0**-54 if dtype == jnp.float64 else 2.0**-25))


def _uniform(ctx: Context, low: Any, high: Any) -> Array:
    """Uniform over [low, high) in steps that the result's own dtype can hold, so that rounding never makes 1.0."""
    dtype = ctx.first.dtype
    real = dtypes.real_of(dtype)
    digits = real.mantissa_bits + 1 if real.is_floating else 24
    width = drawing_dtype(dtype)

    def draw(key: Array) -> Array:
        u = unit(key, ctx.shape, width, digits)
        if is_number(low, 0) and is_number(high, 1):
            return u
        return lax.add(lax.mul(u, ctx.broadcast(ctx.number(high - low, u), u)), ctx.broadcast(ctx.number(low, u), u))

    if dtype.category == "complex":
        return lax.complex(*map(draw, jax.random.split(ctx.key)))
    return draw(ctx.key)


def _normal(ctx: Context, mean: Any = 0.0, std: Any = 1.0) -> Array:
    """Normal; of a complex dtype the components have half the variance each, as in PyTorch."""
    dtype = ctx.first.dtype
    width = drawing_dtype(dtype)
    if dtype.category == "complex":
        parts = jax.random.normal(ctx.key, (2, *ctx.shape), width)
        scaled = lax.mul(parts, lax.full_like(parts, math.sqrt(0.5)))
        return lax.complex(scaled[0], scaled[1])
    noise = jax.random.normal(ctx.key, ctx.shape, width)
    mean, std = (_drawn(x, width, ctx.shape) for x in (mean, std))
    return lax.add(lax.mul(noise, std), mean)


register("rand rand_like", lambda ctx, **_: _uniform(ctx, 0, 1))
register("uniform", lambda ctx, self, **ends: _uniform(ctx, ends["from"], ends["to"]))
register("randn randn_like", lambda ctx, **_: _normal(ctx))
register("normal normal_functional", lambda ctx, mean, std, **_: _normal(ctx, mean, std))
register("log_normal", lambda ctx, self, mean, std: lax.exp(_normal(ctx, mean, std)))


# ------------------------------------------------------------------------------------------------ other distributions


@lowers("exponential")
def exponential(ctx: Context, self: Array, lambd: float) -> Array:
    return _exponential(ctx.key, ctx.shape, drawing_dtype(ctx.first.dtype), lambd)


def _exponential(key: Array, shape: Sequence[int], dtype: Any, rate: float = 1.0) -> Array:
    u = open_unit(key, shape, dtype)
    return lax.div(lax.log1p(lax.neg(u)), lax.full_like(u, -rate))


@lowers("geometric")
def geometric(ctx: Context, self: Array, p: float) -> Array:
    u = open_unit(ctx.key, ctx.shape, drawing_dtype(ctx.first.dtype))
    trials = lax.ceil(lax.div(lax.log(u), lax.full_like(u, math.log1p(-p))))
    return _as_result(ctx, lax.max(trials, lax.full_like(u, 1)))


@lowers("cauchy")
def cauchy(ctx: Context, self: Array, median: float, sigma: float) -> Array:
    u = open_unit(ctx.key, ctx.shape, drawing_dtype(ctx.first.dtype))
    angle = lax.mul(lax.sub(u, lax.full_like(u, 0.5)), lax.full_like(u, math.pi))
    return lax.add(lax.mul(lax.tan(angle), lax.full_like(u, sigma)), lax.full_like(u, median))


@lowers("poisson")
def poisson(ctx: Context, self: Array) -> Array:
    rate = _drawn(self, drawing_dtype(ctx.first.dtype), ctx.shape)
    return lax.convert_element_type(jax.random.poisson(ctx.key, rate, ctx.shape, jnp.int32), rate.dtype)


@lowers("binomial")
def binomial(ctx: Context, count: Array, prob: Array) -> Array:
    dtype = drawing_dtype(ctx.first.dtype)
    count, prob = (_drawn(x, dtype, ctx.shape) for x in (count, prob))
    return jax.random.binomial(ctx.key, count, prob, ctx.shape, dtype)


@lowers("_standard_gamma")
def standard_gamma(ctx: Context, self: Array) -> Array:
    shape_parameter = _drawn(self, drawing_dtype(ctx.first.dtype), ctx.shape)
    return jax.random.gamma(ctx.key, shape_parameter, ctx.shape, shape_parameter.dtype)


register("_standard_gamma_grad", lambda ctx, self, output: lax.random_gamma_grad(self, output))


@lowers("_sample_dirichlet")
def sample_dirichlet(ctx: Context, self: Array) -> Array:
    concentration = _drawn(self, drawing_dtype(ctx.first.dtype), ctx.shape)
    return jax.random.dirichlet(ctx.key, concentration, ctx.shape[:-1], concentration.dtype)


# -------------------------------------------------------------------------------------------------------- whole numbers


def _as_result(ctx: Context, numbers: Array) -> Array:
    """Whole numbers in the result's dtype, which the program chose (a randint may be asked for in float32)."""
    return lax.convert_element_type(numbers, ctx.dtype)


def _integers(ctx: Context, low: int, high: Any) -> Array:
    """Uniform over the integers [low, high): 64 bits modulo the count, so that the bias is at most count / 2**64."""
    words = jax.random.bits(ctx.key, ctx.shape, jnp.uint64)
    if isinstance(high, int):
        count = lax.full(ctx.shape, high - low, jnp.uint64) if high - low < 2**64 else None
    else:
        count = lax.convert_element_type(lax.sub(high, lax.full_like(high, low)), jnp.uint64)
        count = lax.broadcast_in_dim(count, ctx.shape, ())
    offset = words if count is None else lax.rem(words, count)
    return lax.add(lax.convert_element_type(offset, jnp.int64), lax.full(ctx.shape, low, jnp.int64))


register("randint", lambda ctx, high, size, low=0: _as_result(ctx, _integers(ctx, low, high)))
register("randint_like", lambda ctx, self, high, low=0: _as_result(ctx, _integers(ctx, low, high)))


@lowers("random")
def random(ctx: Context, self: Array, **ends: Any) -> Array:
    """random_(): every value of an integer dtype that is not negative; of a floating one 0 to 2**digits."""
    dtype = ctx.first.dtype
    low, high = ends.get("from", 0), ends.get("to")
    if high is None:
        if dtype.is_floating:
            high = 2 ** (dtype.mantissa_bits + 1) + 1
        elif dtype is dtypes.bool_:
            high = 2
        else:
            high = int(jnp.iinfo(dtypes.numpy_dtype(dtype)).max) + 1
    return _as_result(ctx, _integers(ctx, low, high))


@lowers("randperm")
def randperm(ctx: Context, n: int) -> Array:
    words = jax.random.bits(ctx.key, (n,), jnp.uint64)
    return _as_result(ctx, lax.sort((words, lax.iota(jnp.int64, n)), num_keys=1)[1])


# ---------------------------------------------------------------------------------------------------------- choices


def _chance(ctx: Context, p: Any, dtype: Any) -> Array:
    """True with probability p."""
    return lax.lt(unit(ctx.key, ctx.shape, dtype), _drawn(p, dtype, ctx.shape))


def _wide_enough(x: Array) -> Any:
    return jnp.float64 if x.dtype == jnp.float64 else jnp.float32


@lowers("bernoulli.default")
def bernoulli(ctx: Context, self: Array) -> Array:
    return _as_result(ctx, _chance(ctx, self, drawing_dtype(ctx.first.dtype)))


@lowers("bernoulli.p")
def bernoulli_p(ctx: Context, self: Array, p: Any) -> Array:
    return _as_result(ctx, _chance(ctx, p, jnp.float32))


@lowers("bernoulli.Tensor")
def bernoulli_of(ctx: Context, self: Array, p: Array) -> Array:
    return _as_result(ctx, _chance(ctx, p, _wide_enough(p)))


@lowers("native_dropout")
def native_dropout(ctx: Context, input: Array, p: Any, train: bool | None) -> tuple[Array, Array]:
    """input * kept / (1 - p), rounded once: a dropped infinity is NaN, as in PyTorch."""
    if train is False or is_number(p, 0) or input.size == 0:
        # Of an empty tensor PyTorch's mask has the input's dtype.
        mask = ctx.outputs[1]
        return input, lax.full(ctx.shape, True, jnp.bool_ if mask is None else ctx.held(mask))
    kept = _chance(ctx, 1 - p, jnp.float32)
    width = jnp.float64 if input.dtype in (jnp.float64, jnp.complex128) else jnp.float32  # as it is held (law N11)
    scale = _drawn(0.0 if is_number(p, 1) else 1 / (1 - p), width, ctx.shape)
    factor = lax.select(kept, scale, lax.full_like(scale, 0))
    if ctx.first.dtype.category == "complex":
        return lax.mul(input, lax.complex(factor, lax.full_like(factor, 0))), kept
    return lax.mul(lax.convert_element_type(input, width), factor), kept


@lowers("multinomial")
def multinomial(ctx: Context, self: Array, num_samples: int, replacement: bool) -> Array:
    """An exponential race: category i arrives at time e_i / p_i, e_i exponential; the first to arrive is drawn with
    probability p_i / sum(p), and the first k to arrive are k draws without replacement."""
    *batch, categories = self.shape
    rounds = num_samples if replacement else 1
    shape = (*batch, rounds, categories)
    dtype = _wide_enough(self)
    weights = lax.convert_element_type(lax.expand_dims(self, (self.ndim - 1,)), dtype)
    speed = lax.div(jnp.broadcast_to(weights, shape), _exponential(ctx.key, shape, dtype))
    if replacement:
        return lax.argmax(speed, len(shape) - 1, jnp.int64)
    order = ordered(lax.reshape(speed, (*batch, categories)), len(batch), descending=True)[1]
    return lax.slice_in_dim(order, 0, num_samples, 1, len(batch))


@lowers("rrelu_with_noise_functional")
def rrelu_with_noise(
    ctx: Context, self: Array, noise: Array, lower: float, upper: float, training: bool
) -> tuple[Array, Array]:
    width = drawing_dtype(ctx.first.dtype)
    x = lax.convert_element_type(self, width)
    negative = lax.le(x, lax.full_like(x, 0))
    if not training:
        return lax.select(negative, lax.mul(x, lax.full_like(x, (lower + upper) / 2)), x), noise
    u = unit(ctx.key, ctx.shape, width)
    slope = lax.add(lax.mul(u, lax.full_like(u, upper - lower)), lax.full_like(u, lower))
    slope = lax.select(negative, slope, lax.full_like(slope, 1))
    return lax.mul(x, slope), slope

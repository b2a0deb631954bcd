"""pow in all its forms: integers by repeated squaring, floats with eager's short cuts, complex by logarithm."""

from __future__ import annotations

import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.elementwise import is_bool, is_complex, is_integer, like
from truecast.lowering.registry import lowers
from truecast.ops.operands import bound


def _integer_power(base: Array, exponent: Array) -> Array:
    """base ** exponent for integers, wrapping as C does, by repeated squaring: one round per bit of the largest
    exponent. A negative exponent gives 1 / base**n truncated: 0, but for the bases 1 and -1."""
    zero, one, two = like(base, 0), like(base, 1), like(base, 2)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        result, factor, left = state
        odd = lax.ne(lax.bitwise_and(left, one), zero)
        return (
            lax.select(odd, lax.mul(result, factor), result),
            lax.mul(factor, factor),
            lax.div(left, two),
        )

    def busy(state: tuple[Array, Array, Array]) -> Array:
        return lax.reduce_or(lax.gt(state[2], zero), tuple(range(state[2].ndim)))

    start = lax.max(exponent, zero)
    result, _, _ = lax.while_loop(busy, step, (one, base, start))
    if base.dtype.kind == "u":
        return result
    odd = lax.ne(lax.bitwise_and(exponent, one), zero)
    minus_one = lax.select(odd, like(base, -1), one)
    unit = lax.select(lax.eq(base, one), one, lax.select(lax.eq(base, like(base, -1)), minus_one, zero))
    return lax.select(lax.lt(exponent, zero), unit, result)


def _known_power(x: Array, exponent: complex | float | int) -> Array | None:
    """x ** exponent for the exponents that eager computes without pow; None for any other."""
    if exponent == 2:
        return lax.mul(x, x)
    if exponent == 3:
        return lax.mul(lax.mul(x, x), x)
    if exponent == 0.5:
        return lax.sqrt(x)
    if exponent == -0.5:
        return lax.div(like(x, 1), lax.sqrt(x))
    if exponent == -1:
        return lax.div(like(x, 1), x)
    if exponent == -2:
        return lax.div(like(x, 1), lax.mul(x, x))
    return None


@lowers("pow")
def _pow(ctx: Context, self: Array, exponent: Array) -> Array:
    if is_bool(self):  # False ** True is the only False
        return lax.bitwise_or(self, lax.bitwise_not(exponent))
    if is_integer(self):
        return _integer_power(self, exponent)
    written = bound(ctx.node)["exponent"]
    if isinstance(written, bool | int | float | complex):
        if written == 0:
            return like(self, 1)
        if written == 1:
            return self
        if abs(written) == 0.5 and ctx.dtype == np.dtype("float16"):
            # Eager's float16 kernel calls pow, for which -inf and -0.0 have the root of their absolute value.
            edge = lax.bitwise_or(lax.eq(self, like(self, -np.inf)), lax.eq(self, like(self, 0)))
            self = lax.select(edge, lax.abs(self), self)
        known = _known_power(self, written)
        if known is not None:
            return known
    if is_complex(self):
        return _complex_power(self, exponent)
    return lax.pow(self, exponent)


def _complex_power(base: Array, exponent: Array) -> Array:
    """exp(exponent * log(base)); 0 ** 0 is 1, and 0 to a power of positive real part is 0."""
    zero = like(base, 0)
    power = lax.exp(lax.mul(exponent, lax.log(base)))
    real = lax.real(exponent)
    vanishes = lax.bitwise_and(lax.eq(base, zero), lax.gt(real, like(real, 0)))
    power = lax.select(vanishes, zero, power)
    return lax.select(lax.eq(exponent, zero), like(base, 1), power)

"""Transcendental and special functions: powers, logarithms, trigonometry, gamma, Bessel and error functions.

Most are one lax or jax.scipy.special function of one dtype in and out; where that differs from PyTorch at the
edge of the domain (law N7) or loses digits, a function stands here instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
from jax import lax
from jax.scipy import special

from truecast.lowering.context import Array, Context
from truecast.lowering.elementwise import SIGNED_OF_WIDTH, copysign, is_complex, is_nan, like, split_exponent
from truecast.lowering.registry import lowers, register


def _log2(x: Array) -> Array:
    """Exact at powers of two: the exponent is split off and only the mantissa, in [sqrt(1/2), sqrt(2)), goes
    through the natural logarithm."""
    if is_complex(x):
        return lax.mul(lax.log(x), like(x, 1 / math.log(2)))
    mantissa, exponent = split_exponent(x)
    low = lax.lt(mantissa, like(x, math.sqrt(0.5)))
    ordinary = lax.bitwise_and(lax.gt(x, like(x, 0)), lax.lt(x, like(x, np.inf)))
    mantissa = lax.select(lax.bitwise_and(low, ordinary), lax.mul(mantissa, like(x, 2)), mantissa)
    exponent = lax.select(low, lax.sub(exponent, like(exponent, 1)), exponent)
    whole = lax.convert_element_type(exponent, x.dtype)
    part = lax.mul(lax.log(mantissa), like(x, 1 / math.log(2)))
    return lax.select(ordinary, lax.add(whole, part), lax.log(x))


def _log10(x: Array) -> Array:
    return lax.div(lax.log(x), like(x, math.log(10)))


def _sinc(x: Array) -> Array:
    zero = lax.eq(x, like(x, 0))
    scaled = lax.mul(x, like(x, math.pi))
    return lax.select(zero, like(x, 1), lax.div(lax.sin(scaled), lax.select(zero, like(x, 1), scaled)))


def _entropy(x: Array) -> Array:
    """-x log(x); 0 at 0, -inf below."""
    positive = lax.gt(x, like(x, 0))
    value = lax.neg(lax.mul(x, lax.log(lax.select(positive, x, like(x, 1)))))
    outside = lax.select(lax.eq(x, like(x, 0)), like(x, 0), like(x, -np.inf))
    return lax.select(is_nan(x), x, lax.select(positive, value, outside))


def i0(x: Array) -> Array:
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i0e(x))


def i1(x: Array) -> Array:
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i1e(x))


def _spherical_j0(x: Array) -> Array:
    """sin(x) / x; by its series below 0.5, where the quotient loses digits; 0 at infinity."""
    square = lax.mul(x, x)
    series = like(x, 1)
    for term in (210, 156, 110, 72, 42, 20, 6):  # (2k)(2k + 1) from the inside out
        series = lax.sub(like(x, 1), lax.div(lax.mul(square, series), like(x, term)))
    small = lax.lt(lax.abs(x), like(x, 0.5))
    quotient = lax.div(lax.sin(x), lax.select(small, like(x, 1), x))
    infinite = lax.eq(lax.abs(x), like(x, np.inf))
    return lax.select(infinite, like(x, 0), lax.select(small, series, quotient))


def _erfcx(x: Array) -> Array:
    """exp(x * x) * erfc(x), without forming either factor for large x: there by the continued fraction
    1 / (x + (1/2) / (x + 1 / (x + (3/2) / ...))) / sqrt(pi), which 40 levels settle for x >= 2."""
    far = lax.gt(x, like(x, 2))
    safe = lax.select(far, x, like(x, 2))
    fraction = safe
    for level in range(40, 0, -1):
        fraction = lax.add(safe, lax.div(like(x, level / 2), fraction))
    tail = lax.div(like(x, 1 / math.sqrt(math.pi)), fraction)
    near = lax.mul(lax.exp(lax.mul(x, x)), erfc(x))
    return lax.select(far, tail, near)


def exp2(x: Array) -> Array:
    """2**x, exact at integers: 2**round(x) is formed from its bits, in two halves so that neither overflows, and
    only the fraction, in [-1/2, 1/2], goes through exp."""
    if is_complex(x):
        return lax.exp(lax.mul(x, like(x, math.log(2))))
    info = ml_dtypes.finfo(x.dtype)
    integer = SIGNED_OF_WIDTH[x.dtype.itemsize]
    bias = (1 << (info.nexp - 1)) - 1
    # Beyond twice the exponent range the answer is 0 or inf whatever the fraction.
    whole = lax.clamp(like(x, -2 * bias), lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), like(x, 2 * bias))
    power = lax.convert_element_type(whole, integer)
    half = lax.shift_right_arithmetic(power, like(power, 1))

    def power_of_two(exponent: Array) -> Array:
        shifted = lax.shift_left(lax.add(exponent, like(exponent, bias)), like(exponent, info.nmant))
        return lax.bitcast_convert_type(shifted, x.dtype)

    fraction = lax.exp(lax.mul(lax.sub(x, whole), like(x, math.log(2))))
    result = lax.mul(lax.mul(fraction, power_of_two(half)), power_of_two(lax.sub(power, half)))
    infinite = lax.eq(lax.abs(x), like(x, np.inf))
    return lax.select(infinite, lax.select(lax.gt(x, like(x, 0)), x, like(x, 0)), result)


def _sinh(x: Array) -> Array:
    """(E + E / (E + 1)) / 2 with E = expm1(|x|), which keeps the small and rounds the large only once."""
    if is_complex(x):
        a, b = lax.real(x), lax.imag(x)
        return lax.complex(lax.mul(_sinh(a), lax.cos(b)), lax.mul(_cosh(a), lax.sin(b)))
    grown = lax.expm1(lax.abs(x))
    large = lax.gt(grown, like(x, 1e9 if x.dtype.itemsize == 4 else 1e4 if x.dtype.itemsize == 2 else 1e18))
    ratio = lax.div(grown, lax.add(grown, like(x, 1)))
    both = lax.add(grown, lax.select(large, like(x, 1), ratio))
    return copysign(lax.mul(like(x, 0.5), both), x)


def _cosh(x: Array) -> Array:
    if is_complex(x):
        a, b = lax.real(x), lax.imag(x)
        return lax.complex(lax.mul(_cosh(a), lax.cos(b)), lax.mul(_sinh(a), lax.sin(b)))
    half_power = lax.mul(like(x, 0.5), lax.exp(lax.abs(x)))
    return lax.add(half_power, lax.div(like(x, 0.25), half_power))


def _turned(x: Array) -> Array:
    """i x, by exchange of the parts, so that signed zeros on a branch cut keep their side."""
    return lax.complex(lax.neg(lax.imag(x)), lax.real(x))


def _turned_back(x: Array) -> Array:
    return lax.complex(lax.imag(x), lax.neg(lax.real(x)))


def _asin(x: Array) -> Array:
    """XLA halves the operand on the way, which takes the smallest normal numbers out of the range: they are
    their own arcsine."""
    if is_complex(x):
        return lax.asin(x)
    tiny = like(x, 8 * float(ml_dtypes.finfo(x.dtype).smallest_normal))
    return lax.select(lax.lt(lax.abs(x), tiny), x, lax.asin(x))


def _asinh(x: Array) -> Array:
    return _turned_back(lax.asin(_turned(x))) if is_complex(x) else lax.asinh(x)


def _atan(x: Array) -> Array:
    return _turned_back(lax.atanh(_turned(x))) if is_complex(x) else lax.atan(x)


def _acosh(x: Array) -> Array:
    if not is_complex(x):
        return lax.acosh(x)
    angle = lax.acos(x)
    return lax.complex(lax.abs(lax.imag(angle)), copysign(lax.real(angle), lax.imag(x)))


def erfc(x: Array) -> Array:
    """XLA's erfc holds exp(-x*x) of the rounded square, off by x*x units in the last place; the square's rounding
    error, formed exactly by splitting x, takes that back."""
    info = ml_dtypes.finfo(x.dtype)
    high = lax.reduce_precision(x, info.nexp, (info.nmant + 1) // 2 - 1)
    low = lax.sub(x, high)
    # reduce_precision keeps the compiler from folding the rounded square into its own error.
    square = lax.reduce_precision(lax.mul(x, x), info.nexp, info.nmant)
    twice = lax.mul(lax.add(high, high), low)
    error = lax.add(lax.add(lax.sub(lax.mul(high, high), square), twice), lax.mul(low, low))
    matters = lax.bitwise_and(lax.gt(lax.abs(x), like(x, 1)), lax.lt(lax.abs(x), like(x, 30)))
    factor = lax.select(lax.bitwise_and(matters, lax.gt(x, like(x, 0))), lax.sub(like(x, 1), error), like(x, 1))
    return lax.mul(lax.erfc(x), factor)


def _log_ndtr(x: Array) -> Array:
    """log of the normal distribution function; below -1 through erfcx, so that it never takes the log of 0."""
    scaled = lax.mul(x, like(x, math.sqrt(0.5)))
    tail = lax.sub(lax.log(lax.mul(_erfcx(lax.neg(scaled)), like(x, 0.5))), lax.mul(lax.mul(x, x), like(x, 0.5)))
    center = lax.log1p(lax.mul(erfc(scaled), like(x, -0.5)))
    return lax.select(lax.lt(x, like(x, -1)), tail, center)


for _names, _function in {
    "exp": lax.exp,
    "exp2": exp2,
    "expm1": lax.expm1,
    "log": lax.log,
    "log1p": lax.log1p,
    "log2": _log2,
    "log10": _log10,
    "sin": lax.sin,
    "cos": lax.cos,
    "tan": lax.tan,
    "asin": _asin,
    "acos": lax.acos,
    "atan": _atan,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": lax.tanh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": lax.atanh,
    "sinc": _sinc,
    "erf": lax.erf,
    "erfc": erfc,
    "erfinv": lax.erf_inv,
    "i0": i0,
    "special_i0e": lax.bessel_i0e,
    "special_i1": i1,
    "special_i1e": lax.bessel_i1e,
    "special_modified_bessel_i0": i0,
    "special_modified_bessel_i1": i1,
    "special_log_ndtr": _log_ndtr,
    "special_erfcx": _erfcx,
    "special_entr": _entropy,
}.items():
    register(_names, lambda ctx, self, function=_function: function(self))


@lowers("special_ndtri")
def _ndtri(ctx: Context, self: Array) -> Array:
    if self.dtype.itemsize < 4:  # jax has coefficients for float32 and float64 alone
        ctx.unsupported(f"can't be computed in {self.dtype}", help='a rule that says compute = "opmath"')
    return special.ndtri(self)


register("ldexp", lambda ctx, self, other: lax.mul(self, exp2(other)))
register("special_spherical_bessel_j0", lambda ctx, x: _spherical_j0(x))


def _x_times(logarithm: Callable[[Array], Array]) -> Callable[..., Array]:
    """x * logarithm(y), where 0 times anything but NaN is 0."""

    def rule(ctx: Context, self: Array, other: Array) -> Array:
        zero = lax.eq(self, like(self, 0))
        product = lax.mul(self, logarithm(other))
        product = lax.select(zero, like(self, 0), product)
        return lax.select(is_nan(other), other, product)

    return rule


register("xlogy", _x_times(lax.log))
register("special_xlog1py", _x_times(lax.log1p))


def log_add_exp(x: Array, y: Array) -> Array:
    """log(exp(x) + exp(y)) around the larger of the two; equal infinities are their own sum."""
    if is_complex(x):
        first = lax.ge(lax.real(x), lax.real(y))
        larger, smaller = lax.select(first, x, y), lax.select(first, y, x)
        return lax.add(larger, lax.log1p(lax.exp(lax.sub(smaller, larger))))
    larger = lax.max(x, y)
    spread = lax.log1p(lax.exp(lax.neg(lax.abs(lax.sub(x, y)))))
    same = lax.bitwise_and(lax.eq(x, y), lax.eq(lax.abs(x), like(x, np.inf)))
    return lax.select(same, x, lax.add(larger, spread))


register("logaddexp", lambda ctx, self, other: log_add_exp(self, other))


@lowers("logaddexp2")
def _logaddexp2(ctx: Context, self: Array, other: Array) -> Array:
    larger = lax.max(self, other)
    spread = lax.log1p(exp2(lax.neg(lax.abs(lax.sub(self, other)))))
    same = lax.bitwise_and(lax.eq(self, other), lax.eq(lax.abs(self), like(self, np.inf)))
    return lax.select(same, self, lax.add(larger, lax.mul(spread, like(self, 1 / math.log(2)))))

"""Transcendental and special functions: powers, logarithms, trigonometry, gamma, Bessel and error functions.

Most are one lax or jax.scipy.special function of one dtype in and out; where that differs from PyTorch at the
edge of the domain (law N7) or loses digits, a function stands here instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special

from truecast.lowering.context import Array, Context
from truecast.lowering.elementwise import is_complex, is_nan, like, split_exponent
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


def _i0(x: Array) -> Array:
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i0e(x))


def _i1(x: Array) -> Array:
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i1e(x))


def _spherical_j0(x: Array) -> Array:
    """sin(x) / x; by its series below 0.5, where the quotient loses digits; 0 at infinity."""
    square = lax.mul(x, x)
    series = like(x, 1)
    for term in (110, 72, 42, 20, 6):  # (2k)(2k + 1) from the inside out
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
    near = lax.mul(lax.exp(lax.mul(x, x)), lax.erfc(x))
    return lax.select(far, tail, near)


def _digamma(x: Array) -> Array:
    """-inf at +0 and +inf at -0, NaN at the negative integers, as PyTorch has it."""
    infinite = lax.div(like(x, -1), x)
    return lax.select(lax.eq(x, like(x, 0)), infinite, lax.digamma(x))


for _names, _function in {
    "exp": lax.exp,
    "exp2": lambda x: lax.exp2(x),
    "expm1": lax.expm1,
    "log": lax.log,
    "log1p": lax.log1p,
    "log2": _log2,
    "log10": _log10,
    "sin": lax.sin,
    "cos": lax.cos,
    "tan": lax.tan,
    "asin": lax.asin,
    "acos": lax.acos,
    "atan": lax.atan,
    "sinh": lax.sinh,
    "cosh": lax.cosh,
    "tanh": lax.tanh,
    "asinh": lax.asinh,
    "acosh": lax.acosh,
    "atanh": lax.atanh,
    "sinc": _sinc,
    "erf": lax.erf,
    "erfc": lax.erfc,
    "erfinv": lax.erf_inv,
    "lgamma": lax.lgamma,
    "digamma": _digamma,
    "i0": _i0,
    "special_i0e": lax.bessel_i0e,
    "special_i1": _i1,
    "special_i1e": lax.bessel_i1e,
    "special_modified_bessel_i0": _i0,
    "special_modified_bessel_i1": _i1,
    "special_spherical_bessel_j0": _spherical_j0,
    "special_ndtri": special.ndtri,
    "special_log_ndtr": special.log_ndtr,
    "special_erfcx": _erfcx,
    "special_entr": _entropy,
}.items():
    register(_names, lambda ctx, self, function=_function: function(self))


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
        return jnp.logaddexp(x, y)
    larger = lax.max(x, y)
    spread = lax.log1p(lax.exp(lax.neg(lax.abs(lax.sub(x, y)))))
    same = lax.bitwise_and(lax.eq(x, y), lax.eq(lax.abs(x), like(x, np.inf)))
    return lax.select(same, x, lax.add(larger, spread))


register("logaddexp", lambda ctx, self, other: log_add_exp(self, other))


@lowers("logaddexp2")
def _logaddexp2(ctx: Context, self: Array, other: Array) -> Array:
    larger = lax.max(self, other)
    spread = lax.log1p(lax.exp2(lax.neg(lax.abs(lax.sub(self, other)))))
    same = lax.bitwise_and(lax.eq(self, other), lax.eq(lax.abs(self), like(self, np.inf)))
    return lax.select(same, self, lax.add(larger, lax.mul(spread, like(self, 1 / math.log(2)))))


register("igamma", lambda ctx, self, other: lax.igamma(self, other))
register("igammac", lambda ctx, self, other: lax.igammac(self, other))
register("special_zeta", lambda ctx, self, other: lax.zeta(self, other))


@lowers("polygamma")
def _polygamma(ctx: Context, n: int, self: Array) -> Array:
    """(-1)**(n + 1) n! zeta(n + 1, x)."""
    if n == 0:
        return _digamma(self)
    factor = like(self, (-1.0) ** (n + 1) * math.factorial(n))
    return lax.mul(factor, lax.zeta(like(self, n + 1), self))


@lowers("mvlgamma")
def _mvlgamma(ctx: Context, self: Array, p: int) -> Array:
    total = like(self, p * (p - 1) / 4 * math.log(math.pi))
    for j in range(p):
        total = lax.add(total, lax.lgamma(lax.sub(self, like(self, j / 2))))
    return total


# Orthogonal polynomials ------------------------------------------------------------------------------------


def _recurrence(
    first: Callable[[Array], Array], step: Callable[[Array, Array, Array, Array], Array]
) -> Callable[[Array, Array], Array]:
    """The polynomial of degree n with p0 = 1, p1 = first(x) and p(k+1) = step(k, x, pk, p(k-1)); 0 for n < 0.

    n differs from element to element: each keeps its value when k reaches it.
    """

    def polynomial(x: Array, n: Array) -> Array:
        degree = lax.floor(n)
        one, zero = like(x, 1), like(x, 0)
        start = first(x)
        result = lax.select(lax.eq(degree, zero), one, lax.select(lax.lt(degree, zero), zero, start))
        highest = lax.reduce_max(degree, tuple(range(degree.ndim)))

        def busy(state: tuple[Any, ...]) -> Array:
            return lax.lt(state[0], highest)

        def advance(state: tuple[Any, ...]) -> tuple[Any, ...]:
            k, previous, current, result = state
            following = step(lax.broadcast(k, x.shape), x, current, previous)
            k = lax.add(k, lax.full((), 1, k.dtype))
            reached = lax.eq(degree, lax.broadcast(k, x.shape))
            return k, current, following, lax.select(reached, following, result)

        return lax.while_loop(busy, advance, (lax.full((), 1, x.dtype), one, start, result))[3]

    return polynomial


def _twice(x: Array) -> Array:
    return lax.add(x, x)


def _chebyshev_step(k: Array, x: Array, current: Array, previous: Array) -> Array:
    return lax.sub(lax.mul(_twice(x), current), previous)


def _plus(constant: float, slope: float) -> Callable[[Array], Array]:
    return lambda x: lax.add(lax.mul(like(x, slope), x), like(x, constant))


def _shifted(polynomial: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda x, n: polynomial(lax.sub(_twice(x), like(x, 1)), n)


def _hermite_step(k: Array, x: Array, current: Array, previous: Array) -> Array:
    return lax.sub(lax.mul(_twice(x), current), lax.mul(_twice(k), previous))


def _hermite_e_step(k: Array, x: Array, current: Array, previous: Array) -> Array:
    return lax.sub(lax.mul(x, current), lax.mul(k, previous))


def _laguerre_step(k: Array, x: Array, current: Array, previous: Array) -> Array:
    odd = lax.add(_twice(k), like(k, 1))
    return lax.div(lax.sub(lax.mul(lax.sub(odd, x), current), lax.mul(k, previous)), lax.add(k, like(k, 1)))


def _legendre_step(k: Array, x: Array, current: Array, previous: Array) -> Array:
    odd = lax.add(_twice(k), like(k, 1))
    return lax.div(lax.sub(lax.mul(lax.mul(odd, x), current), lax.mul(k, previous)), lax.add(k, like(k, 1)))


_CHEBYSHEV = {
    kind: _recurrence(first, _chebyshev_step)
    for kind, first in {"t": _plus(0, 1), "u": _plus(0, 2), "v": _plus(-1, 2), "w": _plus(1, 2)}.items()
}
_POLYNOMIALS = {
    **{f"chebyshev_polynomial_{kind}": p for kind, p in _CHEBYSHEV.items()},
    **{f"shifted_chebyshev_polynomial_{kind}": _shifted(p) for kind, p in _CHEBYSHEV.items()},
    "hermite_polynomial_h": _recurrence(_plus(0, 2), _hermite_step),
    "hermite_polynomial_he": _recurrence(_plus(0, 1), _hermite_e_step),
    "laguerre_polynomial_l": _recurrence(_plus(1, -1), _laguerre_step),
    "legendre_polynomial_p": _recurrence(_plus(0, 1), _legendre_step),
}
for _name, _polynomial in _POLYNOMIALS.items():
    register(f"special_{_name}", lambda ctx, x, n, polynomial=_polynomial: polynomial(x, n))

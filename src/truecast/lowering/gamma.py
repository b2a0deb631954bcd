"""The gamma family: lgamma, digamma, polygamma, the incomplete gammas and the zeta function.

XLA's own lgamma loses up to five digits in float32 near its zeros at 1 and 2, and its digamma three; PyTorch's
are good to a unit or two in the last place, so both stand here, in the operand's own dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.elementwise import is_nan, like, trunc
from truecast.lowering.registry import lowers, register

# Chebyshev coefficients, computed with mpmath at 40 digits: of lgamma(x) / ((x - 1)(x - 2)) on [1, 3], which
# keeps the relative precision at both zeros, and of lgamma(x) on [3, 8].
# fmt: off
_NEAR = (
    0.44148902545501420802, -0.11119580321752522305, 0.019510448260688840516, -0.0039224614630252639868,
    0.00084789898959538574021, -0.00019153855341365592266, 0.000044544701849756063756, -0.000010572874373594299644,
    2.5474336873408414892e-6, -6.2085358807763160364e-7, 1.5268677399071546601e-7, -3.7826376602913261471e-8,
    9.4281008236242844044e-9, -2.3619997021846449367e-9, 5.9435419058175460746e-10, -1.5013129770728669448e-10,
    3.8050196458110536946e-11, -9.6724852996563246068e-12, 2.4653481983556609269e-12, -6.2988681407917114834e-13,
    1.6128460030283786455e-13, -4.1379492068140420876e-14, 1.0635701227757898417e-14, -2.7382420786652824822e-15,
    7.0606705072148924822e-16, -1.8232177141662118691e-16, 4.7141690067562715939e-17, -1.2204107319639855371e-17,
)
_MIDDLE = (
    4.2797396980992028861, 3.9450988185126755891, 0.32556733750097459364, -0.028483205235681849813,
    0.0037406825494097671783, -0.00058860697136506129108, 0.00010265809795118671627, -0.000019129016841133593674,
    3.7315170321594508781e-6, -7.5259985428293558462e-7, 1.5566278944797452253e-7, -3.2832563128974683902e-8,
    7.033547324878824601e-9, -1.5258150402317879572e-9, 3.3443357905680136677e-10, -7.3933950161550160243e-11,
    1.6463103136120871788e-11, -3.6884300411581494733e-12, 8.307171015937657691e-13, -1.8794749192453690268e-13,
    4.2691031261448742348e-14, -9.7306490873683840355e-15, 2.2247181227759255626e-15, -5.1001983798039530956e-16,
)
# fmt: on
# B(2k) / (2k (2k - 1)), the coefficients of Stirling's series in 1 / x**(2k - 1).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def chebyshev(coefficients: Sequence[float], t: Array) -> Array:
    """The Chebyshev series at t in [-1, 1], by Clenshaw; terms below the dtype's precision are left out."""
    enough = [c for c in coefficients if abs(c) > abs(coefficients[0]) * float(np.finfo(np.float64).eps) / 8]
    if t.dtype.itemsize <= 4:
        enough = [c for c in enough if abs(c) > abs(coefficients[0]) * 1e-9]
    twice = lax.add(t, t)
    before = current = like(t, 0)
    for coefficient in reversed(enough[1:]):
        before, current = current, lax.add(lax.sub(lax.mul(twice, current), before), like(t, coefficient))
    return lax.add(lax.sub(lax.mul(t, current), before), like(t, enough[0]))


def _positive_log_gamma(x: Array) -> Array:
    """lgamma for x > 0: series near 1 and 2 and up to 8, Stirling above; below 1 through lgamma(x + 1) - log(x)."""
    one = like(x, 1)
    below = lax.lt(x, one)
    y = lax.select(below, lax.add(x, one), x)
    t = lax.min(lax.sub(y, like(x, 2)), one)
    near = lax.mul(lax.mul(lax.sub(y, one), lax.sub(y, like(x, 2))), chebyshev(_NEAR, t))
    middle_t = lax.clamp(like(x, -1), lax.div(lax.sub(y, like(x, 5.5)), like(x, 2.5)), one)
    middle = chebyshev(_MIDDLE, middle_t)
    large = lax.max(y, like(x, 8))
    inverse = lax.div(one, large)
    square = lax.mul(inverse, inverse)
    series = like(x, _STIRLING[-1])
    for coefficient in reversed(_STIRLING[:-1]):
        series = lax.add(lax.mul(series, square), like(x, coefficient))
    half_log = like(x, 0.5 * math.log(2 * math.pi))
    log = lax.log(large)
    # x (log(x) - 1) rather than x log(x) - x: the former stays finite for as long as lgamma itself does.
    leading = lax.mul(large, lax.sub(log, one))
    stirling = lax.add(lax.sub(leading, lax.mul(like(x, 0.5), log)), lax.add(half_log, lax.mul(series, inverse)))
    result = lax.select(lax.lt(y, like(x, 3)), near, lax.select(lax.lt(y, like(x, 8)), middle, stirling))
    result = lax.select(below, lax.sub(result, lax.log(x)), result)
    return lax.select(lax.eq(x, like(x, np.inf)), x, result)


def log_gamma(x: Array) -> Array:
    """log |gamma(x)|; +inf at 0, at the negative integers and at both infinities. Below 0 by reflection:
    log(pi / |x sin(pi x)|) - lgamma(-x)."""
    size = lax.abs(x)
    positive = _positive_log_gamma(size)
    fraction = lax.sub(size, lax.floor(size))
    folded = lax.min(fraction, lax.sub(like(x, 1), fraction))  # sin(pi f) for f in [0, 1/2]
    sine = lax.sin(lax.mul(like(x, math.pi), folded))
    reflected = lax.sub(lax.sub(like(x, math.log(math.pi)), lax.log(lax.mul(size, sine))), positive)
    reflected = lax.select(lax.eq(folded, like(x, 0)), like(x, np.inf), reflected)
    result = lax.select(lax.lt(x, like(x, 0)), reflected, positive)
    infinite = lax.bitwise_or(lax.eq(size, like(x, np.inf)), lax.eq(x, like(x, 0)))
    result = lax.select(infinite, like(x, np.inf), result)
    return lax.select(is_nan(x), x, result)


register("lgamma", lambda ctx, self: log_gamma(self))


def digamma(x: Array) -> Array:
    """The recurrence up to 10, then the asymptotic series, as PyTorch's kernel does it. -inf at +0 and +inf at
    -0, NaN at the negative integers; below 0 by reflection."""
    one, zero = like(x, 1), like(x, 0)
    negative = lax.lt(x, zero)
    y = lax.select(negative, lax.sub(one, x), x)
    fraction = lax.sub(x, trunc(x))
    angle = lax.mul(like(x, math.pi), fraction)
    reflection = lax.select(negative, lax.div(like(x, -math.pi), lax.tan(angle)), zero)
    correction = zero
    for _ in range(10):
        small = lax.lt(y, like(x, 10))
        correction = lax.select(small, lax.sub(correction, lax.div(one, y)), correction)
        y = lax.select(small, lax.add(y, one), y)
    square = lax.div(one, lax.mul(y, y))
    series = zero
    # B(2k) / 2k, the coefficients of 1 / y**2k.
    for coefficient in (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
        series = lax.add(lax.mul(series, square), like(x, coefficient))
    tail = lax.mul(series, square)
    result = lax.add(lax.sub(lax.sub(lax.log(y), lax.div(like(x, 0.5), y)), tail), lax.add(correction, reflection))
    whole = lax.bitwise_and(negative, lax.eq(fraction, zero))
    result = lax.select(whole, like(x, math.nan), result)
    return lax.select(lax.eq(x, zero), lax.div(like(x, -1), x), result)


register("digamma", lambda ctx, self: digamma(self))


def _incomplete(function: Callable[[Array, Array], Array], at_zero: float) -> Callable[..., Array]:
    """P(a, x) or Q(a, x), whose limits at the edges are PyTorch's: at x = 0 and for infinite a it is `at_zero`, at
    a = 0 and for infinite x the complement; NaN for a negative argument, at (0, 0) and at (inf, inf)."""

    def rule(ctx: Context, self: Array, other: Array) -> Array:
        a, x, zero, infinity = self, other, like(self, 0), like(self, np.inf)
        near, far = like(a, at_zero), like(a, 1 - at_zero)
        result = lax.select(lax.bitwise_or(lax.eq(a, zero), lax.eq(x, infinity)), far, function(a, x))
        result = lax.select(lax.bitwise_or(lax.eq(x, zero), lax.eq(a, infinity)), near, result)
        undefined = lax.bitwise_or(lax.lt(a, zero), lax.lt(x, zero))
        for corner in (zero, infinity):
            undefined = lax.bitwise_or(undefined, lax.bitwise_and(lax.eq(a, corner), lax.eq(x, corner)))
        undefined = lax.bitwise_or(undefined, lax.bitwise_or(is_nan(a), is_nan(x)))
        return lax.select(undefined, like(a, math.nan), result)

    return rule


register("igamma", _incomplete(lax.igamma, 0.0))
register("igammac", _incomplete(lax.igammac, 1.0))


def _zeta(power: Array, q: Array) -> Array:
    """The sum of (q + k)**-power over k >= 0. XLA's form holds for q > 0 only. Left of 0 a whole power splits the sum
    at the sign change, f being the fraction of |q|: terms 1 - f, 2 - f, ... and, times (-1)**power, f, 1 + f, ..., |q|.
    NaN below the pole at 1; +inf at the poles q = 0, -1, -2, ..., and NaN for a fractional power of the other
    negative q, as in PyTorch."""
    one = like(q, 1)
    left = lax.le(q, like(q, 0))
    size = lax.abs(q)
    whole = lax.eq(size, lax.floor(size))
    fraction = lax.select(whole, like(q, 0.5), lax.sub(size, lax.floor(size)))
    half = lax.mul(power, like(power, 0.5))
    sign = lax.select(lax.eq(half, lax.floor(half)), one, lax.neg(one))
    # In this order, since around f = 1/2 the two large sums cancel exactly for an odd power.
    both = lax.add(lax.zeta(power, lax.sub(one, fraction)), lax.mul(sign, lax.zeta(power, fraction)))
    mirrored = lax.sub(both, lax.mul(sign, lax.zeta(power, lax.add(size, one))))
    result = lax.select(left, mirrored, lax.zeta(power, lax.select(left, one, q)))
    result = lax.select(lax.bitwise_and(left, lax.ne(power, lax.floor(power))), like(power, math.nan), result)
    result = lax.select(lax.bitwise_and(left, whole), like(power, np.inf), result)
    result = lax.select(lax.eq(power, one), like(power, np.inf), result)
    return lax.select(lax.lt(power, one), like(power, math.nan), result)


register("special_zeta", lambda ctx, self, other: _zeta(self, other))


def _trigamma(x: Array) -> Array:
    """zeta(2, x), below 1/2 by reflection: PyTorch's own kernel, so that the poles are as finite as its sine is."""
    low = lax.lt(x, like(x, 0.5))
    y = lax.select(low, lax.sub(like(x, 1), x), x)
    value = lax.select(lax.eq(y, like(x, np.inf)), like(x, 0), _zeta(like(x, 2), y))
    sine = lax.sin(lax.mul(like(x, math.pi), x))
    return lax.select(low, lax.sub(lax.div(like(x, math.pi**2), lax.mul(sine, sine)), value), value)


@lowers("polygamma")
def _polygamma(ctx: Context, n: int, self: Array) -> Array:
    """(-1)**(n + 1) n! zeta(n + 1, x)."""
    if n < 2:
        return _trigamma(self) if n else digamma(self)
    factor = like(self, (-1.0) ** (n + 1) * math.factorial(n))
    return lax.mul(factor, _zeta(like(self, n + 1), self))


@lowers("mvlgamma")
def _mvlgamma(ctx: Context, self: Array, p: int) -> Array:
    total = like(self, p * (p - 1) / 4 * math.log(math.pi))
    for j in range(p):
        total = lax.add(total, log_gamma(lax.sub(self, like(self, j / 2))))
    return total

"""Elementwise arithmetic, comparison, logic, bits and rounding, in jax.lax.

Operands arrive in the compute dtype and broadcast to the result's shape (law N2); comparisons return bool,
all others the compute dtype. Special values follow PyTorch eager on the CPU (law N7); where a formula is
less obvious than the lax operation, the reason stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from jax import lax

from truecast import dtypes
from truecast.graph import Value
from truecast.lowering.context import Array, Context
from truecast.lowering.division import divided
from truecast.lowering.registry import lowers, register
from truecast.ops.operands import bound

SIGNED_OF_WIDTH: dict[int, np.dtype[Any]] = {2: np.dtype("int16"), 4: np.dtype("int32"), 8: np.dtype("int64")}


def is_float(x: Array) -> bool:
    """Whether x's dtype is a real floating one (ml_dtypes' narrow floats included)."""
    return x.dtype.kind in "fV" and x.dtype != np.dtype(bool)


def is_complex(x: Array) -> bool:
    return x.dtype.kind == "c"


def is_integer(x: Array) -> bool:
    return x.dtype.kind in "iu"


def is_bool(x: Array) -> bool:
    return x.dtype.kind == "b"


def like(x: Array, number: complex | float | int | bool) -> Array:
    """An array of x's shape and dtype, filled with one number."""
    return lax.full(x.shape, number, x.dtype)


def is_nan(x: Array) -> Array:
    """Elementwise NaN test; False for integers and booleans."""
    return lax.ne(x, x)


def sign_bit(x: Array) -> Array:
    """Whether the sign bit is set: True for -0.0 and for a NaN with a sign."""
    if not is_float(x):
        return lax.full(x.shape, False) if is_bool(x) or x.dtype.kind == "u" else lax.lt(x, like(x, 0))
    bits = lax.bitcast_convert_type(x, SIGNED_OF_WIDTH[x.dtype.itemsize])
    return lax.lt(bits, like(bits, 0))


def trunc(x: Array) -> Array:
    """Towards zero; -0.5 gives -0.0, as ceil does."""
    return x if not is_float(x) else lax.select(lax.lt(x, like(x, 0)), lax.ceil(x), lax.floor(x))


def copysign(magnitude: Array, sign: Array) -> Array:
    absolute = lax.abs(magnitude)
    return lax.select(sign_bit(sign), lax.neg(absolute), absolute)


def _unary(function: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda ctx, self: function(self)


def _binary(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda ctx, self, other: function(self, other)


def _float_only(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Identity on integers and booleans, as PyTorch's rounding functions are."""
    return lambda x: function(x) if is_float(x) else x


def _nonzero(x: Array) -> Array:
    return x if is_bool(x) else lax.ne(x, like(x, 0))


def _sign(x: Array) -> Array:
    if is_bool(x) or x.dtype.kind == "u":
        return lax.min(x, like(x, 1)) if not is_bool(x) else x
    if is_complex(x):
        magnitude = lax.abs(x)
        zero = lax.eq(magnitude, like(magnitude, 0))
        safe = lax.select(zero, like(magnitude, 1), magnitude)
        unit = lax.complex(lax.div(lax.real(x), safe), lax.div(lax.imag(x), safe))
        return lax.select(zero, like(x, 0), unit)
    # A NaN has sign 0 in PyTorch: neither comparison holds.
    positive = lax.select(lax.gt(x, like(x, 0)), like(x, 1), like(x, 0))
    return lax.select(lax.lt(x, like(x, 0)), like(x, -1), positive)


def _abs(x: Array) -> Array:
    return x if is_bool(x) or x.dtype.kind == "u" else lax.abs(x)


def _infinite(sign: int) -> Callable[[Array], Array]:
    def test(x: Array) -> Array:
        if not is_float(x):
            return lax.full(x.shape, False)
        return lax.eq(x, like(x, sign * np.inf))

    return test


def _is_infinite(x: Array) -> Array:
    if is_complex(x):
        return lax.bitwise_or(_is_infinite(lax.real(x)), _is_infinite(lax.imag(x)))
    return lax.eq(lax.abs(x), like(x, np.inf)) if is_float(x) else lax.full(x.shape, False)


for _names, _function in {
    "neg _neg_view _neg_view_copy": lax.neg,
    "abs": _abs,
    "sign sgn": _sign,
    "signbit": sign_bit,
    "positive": lambda x: x,
    "ceil": _float_only(lax.ceil),
    "floor": _float_only(lax.floor),
    "trunc fix": trunc,
    "round.default": _float_only(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)),
    "frac": lambda x: lax.sub(x, trunc(x)),
    "reciprocal": lambda x: lax.div(like(x, 1), x),
    "sqrt": lax.sqrt,
    "rsqrt": lambda x: lax.div(like(x, 1), lax.sqrt(x)),
    "square": lambda x: lax.mul(x, x),
    "bitwise_not": lax.bitwise_not,
    "logical_not": lambda x: lax.bitwise_not(_nonzero(x)),
    "isnan": is_nan,
    "isinf": _is_infinite,
    "isposinf": _infinite(1),
    "isneginf": _infinite(-1),
    "deg2rad": lambda x: lax.mul(x, like(x, np.pi / 180)),
    "rad2deg": lambda x: lax.mul(x, like(x, 180 / np.pi)),
}.items():
    register(_names, _unary(_function))


# Arithmetic ------------------------------------------------------------------------------------------------


def _times(x: Array, y: Array) -> Array:
    return lax.bitwise_and(x, y) if is_bool(x) else lax.mul(x, y)


def _is_one(factor: Any) -> bool:
    return isinstance(factor, bool | int | float | complex) and factor == 1


def _scaled(ctx: Context, x: Array, factor: Any) -> Array:
    """x * factor; a factor of exactly 1 written in the program costs nothing."""
    return x if _is_one(factor) else _times(x, ctx.broadcast(factor, x))


def _sum(ctx: Context, x: Array, y: Array, factor: Any, combine: Callable[[Array, Array], Array]) -> Array:
    """combine(x, y * factor). Eager fuses the two, so it has no product that could overflow: an infinite x stays
    what it is beside a finite y."""
    total = combine(x, _scaled(ctx, y, factor))
    if _is_one(factor) or not dtypes.of(x.dtype).is_floating:
        return total
    infinite = lax.eq(lax.abs(x), lax.full_like(x, float("inf")))
    finite = lax.bitwise_and(lax.is_finite(y), lax.is_finite(ctx.broadcast(factor, y)))
    return lax.select(lax.bitwise_and(infinite, finite), x, total)


register("add", lambda ctx, self, other, alpha=1: _sum(ctx, self, other, alpha, _or_add))
register("sub", lambda ctx, self, other, alpha=1: _sum(ctx, self, other, alpha, lax.sub))
register("rsub", lambda ctx, self, other, alpha=1: _sum(ctx, other, self, alpha, lax.sub))


def _or_add(x: Array, y: Array) -> Array:
    return lax.bitwise_or(x, y) if is_bool(x) else lax.add(x, y)


register("mul", _binary(_times))


def _different_signs(remainder: Array, divisor: Array) -> Array:
    zero = like(remainder, 0)
    inexact = lax.ne(remainder, zero)
    return lax.bitwise_and(inexact, lax.ne(lax.lt(remainder, zero), lax.lt(divisor, zero)))


def floor_divide(x: Array, y: Array) -> Array:
    """Floor division. Floats as Python's float floor division does it: from the exact remainder, so that the
    quotient's rounding can't carry it over an integer."""
    if is_integer(x):
        quotient = lax.div(x, y)
        if x.dtype.kind == "u":
            return quotient
        return lax.select(_different_signs(lax.rem(x, y), y), lax.sub(quotient, like(x, 1)), quotient)
    zero, one = like(x, 0), like(x, 1)
    remainder = lax.rem(x, y)
    quotient = lax.div(lax.sub(x, remainder), y)
    quotient = lax.select(_different_signs(remainder, y), lax.sub(quotient, one), quotient)
    floored = lax.floor(quotient)
    floored = lax.select(lax.gt(lax.sub(quotient, floored), like(x, 0.5)), lax.add(floored, one), floored)
    ratio = lax.div(x, y)
    floored = lax.select(lax.ne(quotient, zero), floored, copysign(zero, ratio))
    return lax.select(lax.eq(y, zero), ratio, floored)


def _as_result(ctx: Context, x: Array) -> Array:
    """x with the precision of the result's dtype: what PyTorch rounds before it goes on, in every opmath kernel."""
    info = ml_dtypes.finfo(ctx.dtype)
    return lax.reduce_precision(x, info.nexp, info.nmant)


@lowers("div floor_divide")
def _div(ctx: Context, self: Array, other: Array, rounding_mode: str | None = None) -> Array:
    if rounding_mode == "floor" or ctx.node.op.startswith("aten.floor_divide."):
        return floor_divide(self, other)
    if rounding_mode == "trunc":
        quotient = divided(self, other)
        return quotient if is_integer(self) else trunc(_as_result(ctx, quotient))
    is_number = not isinstance(bound(ctx.node)["other"], Value)
    return divided(self, other) if is_number else lax.div(self, other)


def _remainder(x: Array, y: Array) -> Array:
    remainder = lax.rem(x, y)
    if x.dtype.kind == "u":
        return remainder
    return lax.select(_different_signs(remainder, y), lax.add(remainder, y), remainder)


def _hypot(x: Array, y: Array) -> Array:
    """sqrt(x*x + y*y), scaled by the larger so that neither square overflows or vanishes."""
    x, y = lax.abs(x), lax.abs(y)
    larger, smaller = lax.max(x, y), lax.min(x, y)
    zero = lax.eq(larger, like(x, 0))
    ratio = lax.div(smaller, lax.select(zero, like(x, 1), larger))
    length = lax.mul(larger, lax.sqrt(lax.add(like(x, 1), lax.mul(ratio, ratio))))
    infinite = lax.bitwise_or(lax.eq(x, like(x, np.inf)), lax.eq(y, like(x, np.inf)))
    return lax.select(infinite, like(x, np.inf), length)


def _fmax(x: Array, y: Array) -> Array:
    return lax.select(is_nan(x), y, lax.select(is_nan(y), x, lax.max(x, y)))


def _fmin(x: Array, y: Array) -> Array:
    return lax.select(is_nan(x), y, lax.select(is_nan(y), x, lax.min(x, y)))


def _heaviside(x: Array, values: Array) -> Array:
    if is_bool(x):
        return lax.bitwise_or(x, values)
    step = lax.select(lax.gt(x, like(x, 0)), like(x, 1), like(x, 0))
    return lax.select(lax.eq(x, like(x, 0)), values, step)


def _gcd(x: Array, y: Array) -> Array:
    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = state
        done = lax.eq(b, like(b, 0))
        return lax.select(done, a, b), lax.select(done, b, lax.rem(a, lax.select(done, like(b, 1), b)))

    def busy(state: tuple[Array, Array]) -> Array:
        return lax.reduce_or(lax.ne(state[1], like(state[1], 0)), tuple(range(state[1].ndim)))

    return lax.while_loop(busy, step, (_abs(x), _abs(y)))[0]


def _lcm(x: Array, y: Array) -> Array:
    divisor = _gcd(x, y)
    zero = lax.eq(divisor, like(x, 0))
    quotient = lax.div(x, lax.select(zero, like(x, 1), divisor))
    # C computes narrow integers as int and wraps the absolute value; int32 and int64 wrap before it.
    narrow = x.dtype.itemsize < 4
    multiple = lax.mul(_abs(quotient), _abs(y)) if narrow else _abs(lax.mul(quotient, y))
    return lax.select(zero, like(x, 0), multiple)


def _shift_right(x: Array, count: Array) -> Array:
    return lax.shift_right_logical(x, count) if x.dtype.kind == "u" else lax.shift_right_arithmetic(x, count)


def _logical(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda x, y: function(_nonzero(x), _nonzero(y))


for _names, _operation in {
    "remainder": _remainder,
    "fmod": lax.rem,
    "maximum max.other": lax.max,
    "minimum min.other": lax.min,
    "fmax": _fmax,
    "fmin": _fmin,
    "atan2": lax.atan2,
    "hypot": _hypot,
    "copysign": copysign,
    "nextafter": lax.nextafter,
    "gcd": _gcd,
    "lcm": _lcm,
    "eq": lax.eq,
    "ne": lax.ne,
    "lt": lax.lt,
    "le": lax.le,
    "gt": lax.gt,
    "ge": lax.ge,
    "bitwise_and": lax.bitwise_and,
    "bitwise_or": lax.bitwise_or,
    "bitwise_xor": lax.bitwise_xor,
    "bitwise_left_shift __lshift__": lax.shift_left,
    "bitwise_right_shift __rshift__": _shift_right,
    "logical_and": _logical(lax.bitwise_and),
    "logical_or": _logical(lax.bitwise_or),
    "logical_xor": _logical(lax.bitwise_xor),
}.items():
    register(_names, _binary(_operation))
register("heaviside", lambda ctx, self, values: _heaviside(self, values))


# Three operands --------------------------------------------------------------------------------------------


@lowers("clamp clip")
def _clamp(ctx: Context, self: Array, min: Any = None, max: Any = None) -> Array:
    """max wins where min > max; a NaN in any of the three is the result, which lax.min and lax.max propagate."""
    if min is not None:
        self = lax.max(self, ctx.broadcast(min, self))
    return self if max is None else lax.min(self, ctx.broadcast(max, self))


register("clamp_min", lambda ctx, self, min: _clamp(ctx, self, min=min))
register("clamp_max", lambda ctx, self, max: _clamp(ctx, self, max=max))


@lowers("lerp")
def _lerp(ctx: Context, self: Array, end: Array, weight: Any) -> Array:
    """From the nearer end, so that weight 0 and 1 give self and end exactly."""
    weight = ctx.broadcast(weight, self)
    distance = lax.sub(end, self)
    size = lax.abs(weight) if is_complex(weight) else weight
    near = lax.lt(size, like(size, 0.5))
    from_end = lax.sub(end, lax.mul(distance, lax.sub(like(weight, 1), weight)))
    return lax.select(near, lax.add(self, lax.mul(weight, distance)), from_end)


@lowers("addcmul")
def _addcmul(ctx: Context, self: Array, tensor1: Array, tensor2: Array, value: Any = 1) -> Array:
    return lax.add(self, lax.mul(_scaled(ctx, tensor1, value), tensor2))


@lowers("addcdiv")
def _addcdiv(ctx: Context, self: Array, tensor1: Array, tensor2: Array, value: Any = 1) -> Array:
    return lax.add(self, lax.div(_scaled(ctx, tensor1, value), tensor2))


@lowers("nan_to_num")
def _nan_to_num(
    ctx: Context, self: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    if not is_float(self) and not is_complex(self):
        return self
    if is_complex(self):
        parts = (_nan_to_num(ctx, part, nan, posinf, neginf) for part in (lax.real(self), lax.imag(self)))
        return lax.complex(*parts)
    # The largest finite number of the result's dtype, not of the compute dtype.
    component = np.dtype(f"f{ctx.dtype.itemsize // 2}") if ctx.dtype.kind == "c" else ctx.dtype
    largest = float(ml_dtypes.finfo(component).max)
    result = lax.select(is_nan(self), like(self, 0.0 if nan is None else nan), self)
    above = like(self, largest if posinf is None else posinf)
    below = like(self, -largest if neginf is None else neginf)
    result = lax.select(lax.eq(self, like(self, np.inf)), above, result)
    return lax.select(lax.eq(self, like(self, -np.inf)), below, result)


@lowers("round.decimals")
def _round_decimals(ctx: Context, self: Array, decimals: int) -> Array:
    if not is_float(self):
        return self
    scale = like(self, 10.0 ** abs(decimals))
    scaled, restore = (lax.mul, divided) if decimals >= 0 else (divided, lax.mul)
    return restore(lax.round(scaled(self, scale), lax.RoundingMethod.TO_NEAREST_EVEN), scale)


def split_exponent(x: Array) -> tuple[Array, Array]:
    """(mantissa, exponent) with x == mantissa * 2**exponent and 0.5 <= |mantissa| < 1; the exponent is int32.
    Zeros, infinities and NaNs come back unchanged with exponent 0."""
    info = ml_dtypes.finfo(x.dtype)
    integer: np.dtype[Any] = SIGNED_OF_WIDTH[x.dtype.itemsize]
    tiny = lax.lt(lax.abs(x), like(x, float(info.smallest_normal)))
    lift = info.nmant + 2
    normal = lax.select(tiny, lax.mul(x, like(x, 2.0**lift)), x)
    bits = lax.bitcast_convert_type(normal, integer)
    mask = (1 << info.nexp) - 1
    stored = lax.bitwise_and(lax.shift_right_logical(bits, like(bits, info.nmant)), like(bits, mask))
    half = int(np.array(0.5, x.dtype).view(integer)) >> info.nmant
    cleared = lax.bitwise_and(bits, like(bits, ~(mask << info.nmant)))
    mantissa = lax.bitcast_convert_type(lax.bitwise_or(cleared, like(bits, half << info.nmant)), x.dtype)
    exponent = lax.convert_element_type(lax.sub(stored, like(bits, half)), np.dtype("int32"))
    exponent = lax.select(tiny, lax.sub(exponent, like(exponent, lift)), exponent)
    plain = lax.bitwise_or(lax.eq(x, like(x, 0)), lax.eq(stored, like(bits, mask)))
    return lax.select(plain, x, mantissa), lax.select(plain, like(exponent, 0), exponent)


@lowers("frexp")
def _frexp(ctx: Context, self: Array) -> tuple[Array, Array]:
    return split_exponent(self)

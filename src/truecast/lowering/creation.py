"""Tensors made from nothing: constants, ranges, identity matrices, triangle indices.

Nothing here embeds a table as large as its result: ranges are iotas, so that a program stays small.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from truecast.lowering.cast import broadcast_to, converted
from truecast.lowering.context import Array, Context
from truecast.lowering.division import divided
from truecast.lowering.registry import lowers, register

_INT64, _FLOAT64, _COMPLEX128 = np.dtype("int64"), np.dtype("float64"), np.dtype("complex128")


def filled(ctx: Context, value: Any) -> Array:
    """The result, filled with a number or a 0-dim array."""
    if hasattr(value, "dtype"):
        return broadcast_to(converted(ctx.ready(value, ctx.dtype), ctx.dtype), ctx.shape)
    return lax.full(ctx.shape, number_in(value, ctx.dtype), ctx.dtype)


def number_in(value: complex | float | int | bool, dtype: np.dtype[Any]) -> Any:
    """A Python number as `dtype` holds it: integers wrap, floats truncate into integers, complex loses its
    imaginary part."""
    if dtype.kind == "c":
        return value
    real = value.real if isinstance(value, complex) else value
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        wrapped = int(real) & ((1 << bits) - 1)
        return wrapped - (1 << bits) if dtype.kind == "i" and wrapped >> (bits - 1) else wrapped
    return real


register("full new_full", lambda ctx, size, fill_value, self=None: filled(ctx, fill_value))
register("full_like", lambda ctx, self, fill_value: filled(ctx, fill_value))
register("scalar_tensor", lambda ctx, s: filled(ctx, s))
register("fill", lambda ctx, self, value: filled(ctx, value))
register("zeros new_zeros zeros_like zero _efficientzerotensor", lambda ctx, **_: filled(ctx, 0))
register("ones new_ones ones_like", lambda ctx, **_: filled(ctx, 1))
# What an empty tensor holds is not defined; zeros make a program that reads it repeatable.
register("empty empty_strided empty_like empty_permuted new_empty new_empty_strided", lambda ctx, **_: filled(ctx, 0))


def _counted(ctx: Context, start: Any, step: Any, count: int, wide: np.dtype[Any]) -> Array:
    """start + step * i for i < count, computed in `wide`."""
    index = lax.iota(wide, count)
    start, step = (broadcast_to(_as(value, wide), (count,)) for value in (start, step))
    return lax.add(start, lax.mul(step, index))


def _as(value: Any, dtype: np.dtype[Any]) -> Array:
    return converted(value, dtype) if hasattr(value, "dtype") else lax.full((), number_in(value, dtype), dtype)


def _whole(value: Any) -> bool:
    """A number that int64 holds exactly, in the range where float64 does too."""
    if hasattr(value, "dtype"):
        return value.dtype.kind in "iu"
    return float(value).is_integer() and abs(value) < 2**53


@lowers("arange range")
def _arange(ctx: Context, end: Any, start: Any = 0, step: Any = 1) -> Array:
    """Whole numbers are counted in int64 and converted once; others in float64, as eager accumulates."""
    count = ctx.shape[0]
    wide = _INT64 if ctx.dtype.kind in "iu" or (_whole(start) and _whole(step)) else _FLOAT64
    if ctx.dtype.kind in "iu":  # eager truncates the bounds before it counts
        start, step = (v if hasattr(v, "dtype") else number_in(v, _INT64) for v in (start, step))
    return converted(_counted(ctx, start, step, count, wide), ctx.dtype)


def spaced(start: Any, end: Any, steps: int) -> Array:
    """`steps` float64 points from start to end, counted from the nearer end, so that both ends are exact."""
    first, last = (broadcast_to(_as(value, _FLOAT64), (steps,)) for value in (start, end))
    if steps == 1:
        return first
    index = lax.iota(_FLOAT64, steps)
    step = divided(lax.sub(last, first), lax.full((steps,), steps - 1, _FLOAT64))
    from_end = lax.sub(lax.full((steps,), steps - 1, _FLOAT64), index)
    near = lax.lt(index, lax.full((steps,), steps // 2, _FLOAT64))
    return lax.select(near, lax.add(first, lax.mul(step, index)), lax.sub(last, lax.mul(step, from_end)))


@lowers("linspace")
def _linspace(ctx: Context, start: Any, end: Any, steps: int) -> Array:
    if ctx.dtype.kind == "c":
        return converted(_complex_spaced(start, end, steps), ctx.dtype)
    if ctx.dtype.kind in "iu":
        start, end = (_as(v, _INT64) for v in (start, end))
    return converted(spaced(start, end, steps), ctx.dtype)


def _complex_spaced(start: Any, end: Any, steps: int) -> Array:
    real, imaginary = (spaced(_part(start, name), _part(end, name), steps) for name in ("real", "imag"))
    return lax.complex(real, imaginary)


def _part(value: Any, name: str) -> Any:
    if not hasattr(value, "dtype"):
        return getattr(complex(value), name)
    if value.dtype.kind == "c":
        return lax.real(value) if name == "real" else lax.imag(value)
    return value if name == "real" else 0.0


@lowers("logspace")
def _logspace(ctx: Context, start: Any, end: Any, steps: int, base: float = 10.0) -> Array:
    if ctx.dtype.kind == "c":
        exponents = _complex_spaced(start, end, steps)
        return converted(lax.pow(lax.full_like(exponents, base), exponents), ctx.dtype)
    if ctx.dtype.kind in "iu":  # of the bounds, not of the powers: 2 to 1.2 counts to 1
        start, end = (_as(v, _INT64) for v in (start, end))
    exponents = spaced(start, end, steps)
    return converted(lax.pow(lax.full((steps,), base, _FLOAT64), exponents), ctx.dtype)


@lowers("eye")
def _eye(ctx: Context, n: int, m: int | None = None) -> Array:
    rows, columns = (lax.broadcasted_iota(_INT64, ctx.shape, axis) for axis in (0, 1))
    return lax.select(lax.eq(rows, columns), filled(ctx, 1), filled(ctx, 0))


def _triangle(ctx: Context, starts: np.ndarray, counts: np.ndarray) -> Array:
    """Row and column of each element of a triangle, whose row r holds `counts[r]` elements from column
    `starts[r]` on: the row by search in the running counts, the column by the distance from its start."""
    total = ctx.shape[1]
    assert int(counts.sum()) == total, f"{ctx.node.op}: {int(counts.sum())} elements, PyTorch says {total}"
    if total == 0:
        return filled(ctx, 0)
    ends = np.cumsum(counts)
    index = lax.iota(_INT64, total)
    rows = jnp.searchsorted(jnp.asarray(ends), index, side="right").astype(_INT64)
    offsets = jnp.asarray(starts - (ends - counts))
    columns = lax.add(index, offsets[rows])
    return converted(lax.concatenate([lax.expand_dims(v, (0,)) for v in (rows, columns)], 0), ctx.dtype)


@lowers("tril_indices")
def _tril_indices(ctx: Context, row: int, col: int, offset: int = 0) -> Array:
    rows = np.arange(row, dtype=np.int64)
    return _triangle(ctx, np.zeros_like(rows), np.clip(rows + offset + 1, 0, col))


@lowers("triu_indices")
def _triu_indices(ctx: Context, row: int, col: int, offset: int = 0) -> Array:
    starts = np.clip(np.arange(row, dtype=np.int64) + offset, 0, col)
    return _triangle(ctx, starts, col - starts)


@lowers("fft_fftfreq fft_rfftfreq")
def _frequencies(ctx: Context, n: int, d: float = 1.0) -> Array:
    """Multiples of 1 / (n d): from 0 up, and in a whole spectrum the negative ones after them."""
    count = ctx.shape[0]
    index = lax.iota(_INT64, count)
    if count == n:
        positive = lax.lt(index, lax.full_like(index, (n + 1) // 2))
        index = lax.select(positive, index, lax.sub(index, lax.full_like(index, n)))
    wide = converted(index, _COMPLEX128 if ctx.dtype.kind == "c" else _FLOAT64)
    return converted(lax.mul(wide, lax.full_like(wide, 1.0 / (n * d) if n else 0.0)), ctx.dtype)


# Windows of signal processing ------------------------------------------------------------------------------


def _window(ctx: Context, length: int, periodic: bool, terms: tuple[float, ...]) -> Array:
    """sum of (-1)**k terms[k] cos(2 pi k n / N): N is the length, less one for a symmetric window."""
    if length == 1:
        return filled(ctx, 1)
    points = lax.iota(_FLOAT64, length)
    period = length if periodic else length - 1
    total = lax.full((length,), 0.0, _FLOAT64)
    for k, term in enumerate(terms):
        angle = lax.mul(points, lax.full((length,), 2 * math.pi * k / period, _FLOAT64))
        total = lax.add(total, lax.mul(lax.full((length,), (-1) ** k * term, _FLOAT64), lax.cos(angle)))
    return converted(total, ctx.dtype)


register("hann_window", lambda ctx, window_length, periodic=True: _window(ctx, window_length, periodic, (0.5, 0.5)))
register(
    "hamming_window",
    lambda ctx, window_length, periodic=True, alpha=0.54, beta=0.46: _window(
        ctx, window_length, periodic, (alpha, beta)
    ),
)
register(
    "blackman_window",
    lambda ctx, window_length, periodic=True: _window(ctx, window_length, periodic, (0.42, 0.5, 0.08)),
)


@lowers("bartlett_window")
def _bartlett(ctx: Context, window_length: int, periodic: bool = True) -> Array:
    if window_length == 1:
        return filled(ctx, 1)
    ramp = lax.iota(_FLOAT64, window_length)
    half = lax.full((window_length,), (window_length if periodic else window_length - 1) / 2, _FLOAT64)
    distance = lax.div(lax.abs(lax.sub(ramp, half)), half)
    return converted(lax.sub(lax.full((window_length,), 1.0, _FLOAT64), distance), ctx.dtype)


@lowers("kaiser_window")
def _kaiser(ctx: Context, window_length: int, periodic: bool = True, beta: float = 12.0) -> Array:
    if window_length == 1:
        return filled(ctx, 1)
    count = window_length if periodic else window_length - 1
    x = lax.sub(
        lax.mul(lax.iota(_FLOAT64, window_length), lax.full((window_length,), 2.0 / count, _FLOAT64)),
        lax.full((window_length,), 1.0, _FLOAT64),
    )
    inner = lax.max(lax.sub(lax.full((window_length,), 1.0, _FLOAT64), lax.mul(x, x)), lax.full_like(x, 0))
    argument = lax.mul(lax.full_like(x, beta), lax.sqrt(inner))
    scale = float(np.i0(beta))
    bessel = lax.mul(lax.exp(argument), lax.bessel_i0e(argument))
    return converted(lax.div(bessel, lax.full_like(x, scale)), ctx.dtype)

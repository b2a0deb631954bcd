"""Reductions: many elements to one along dims. What adds or multiplies accumulates as law N4 says, through the
context; extremes and tests are exact in any dtype.

Special values follow eager (law N7): a NaN wins every maximum and minimum, the first index wins ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.division import divided
from truecast.lowering.elementwise import is_bool, is_complex, is_nan, like
from truecast.lowering.registry import lowers, register

_INT64 = np.dtype("int64")
Dims = int | Sequence[int] | None


def axes_of(x: Array, dim: Dims) -> tuple[int, ...]:
    """Non-negative, sorted axes; every axis for None and for an empty list."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return tuple(range(x.ndim))
    dims = dim if isinstance(dim, Sequence) else (dim,)
    return tuple(sorted(d % x.ndim for d in dims)) if x.ndim else ()


def kept(x: Array, axes: tuple[int, ...], keepdim: bool) -> Array:
    """A reduced array with the reduced axes back as extents of 1, if asked for."""
    return lax.expand_dims(x, axes) if keepdim else x


def _spread(reduced: Array, axes: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """A reduced array, repeated along the axes it lost."""
    remaining = [axis for axis in range(len(shape)) if axis not in axes]
    return lax.broadcast_in_dim(reduced, shape, remaining)


def _count(x: Array, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[axis] for axis in axes)


# Sums ------------------------------------------------------------------------------------------------------


@lowers("sum")
def _sum(ctx: Context, self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    axes = axes_of(self, dim)
    if self.dtype == bool:  # sum(dtype=torch.bool)
        return kept(lax.reduce_or(self, axes), axes, keepdim)
    return ctx.sum(self, axes, keepdim)


@lowers("nansum")
def _nansum(ctx: Context, self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    if self.dtype == bool:
        return _sum(ctx, self, dim, keepdim)
    return ctx.sum(lax.select(is_nan(self), like(self, 0), self), axes_of(self, dim), keepdim)


@lowers("mean")
def _mean(ctx: Context, self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    return ctx.mean(self, axes_of(self, dim), keepdim)


@lowers("prod")
def _prod(ctx: Context, self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    axes = axes_of(self, dim)
    if self.dtype == bool:  # prod(dtype=torch.bool)
        return kept(lax.reduce_and(self, axes), axes, keepdim)
    return kept(ctx.product(self, axes), axes, keepdim)


@lowers("trace")
def _trace(ctx: Context, self: Array) -> Array:
    rows, columns = (lax.broadcasted_iota(_INT64, self.shape, axis) for axis in (0, 1))
    return ctx.sum(lax.select(lax.eq(rows, columns), self, like(self, 0)), (0, 1))


@lowers("count_nonzero")
def _count_nonzero(ctx: Context, self: Array, dim: Dims = None) -> Array:
    return lax.reduce_sum(_ones_where(lax.ne(self, like(self, 0)), _INT64), axes_of(self, dim))


def _ones_where(condition: Array, dtype: np.dtype[Any]) -> Array:
    return lax.select(condition, lax.full(condition.shape, 1, dtype), lax.full(condition.shape, 0, dtype))


# Moments ---------------------------------------------------------------------------------------------------


def _moments(ctx: Context, x: Array, dim: Dims, correction: Any, keepdim: bool) -> tuple[Array, Array]:
    """Variance and mean in two passes: the second sums the squared distances from the mean of the first.

    The divisor is the count less the correction, not below 0; at 0 eager divides as well (NaN or inf).
    """
    axes = axes_of(x, dim)
    mean = ctx.mean(x, axes)
    distance = lax.sub(x, _spread(mean, axes, x.shape))
    if is_complex(x):
        real, imaginary = lax.real(distance), lax.imag(distance)
        square = lax.add(lax.mul(real, real), lax.mul(imaginary, imaginary))
        total = lax.reduce_sum(square, axes)
    else:
        total = ctx.sum(lax.mul(distance, distance), axes)
    divisor = max(0.0, _count(x, axes) - float(1 if correction is None else correction))
    variance = divided(total, like(total, divisor))
    return kept(variance, axes, keepdim), kept(mean, axes, keepdim)


@lowers("var")
def _var(ctx: Context, self: Array, dim: Dims = None, correction: Any = None, keepdim: bool = False) -> Array:
    return _moments(ctx, self, dim, correction, keepdim)[0]


@lowers("std")
def _std(ctx: Context, self: Array, dim: Dims = None, correction: Any = None, keepdim: bool = False) -> Array:
    return lax.sqrt(_moments(ctx, self, dim, correction, keepdim)[0])


@lowers("var_mean")
def _var_mean(
    ctx: Context, self: Array, dim: Dims = None, correction: Any = None, keepdim: bool = False
) -> tuple[Array, Array]:
    return _moments(ctx, self, dim, correction, keepdim)


@lowers("std_mean")
def _std_mean(
    ctx: Context, self: Array, dim: Dims = None, correction: Any = None, keepdim: bool = False
) -> tuple[Array, Array]:
    variance, mean = _moments(ctx, self, dim, correction, keepdim)
    return lax.sqrt(variance), mean


# Extremes --------------------------------------------------------------------------------------------------


def reduce_max(x: Array, axes: Sequence[int]) -> Array:
    return lax.reduce_or(x, tuple(axes)) if is_bool(x) else lax.reduce_max(x, tuple(axes))


def reduce_min(x: Array, axes: Sequence[int]) -> Array:
    return lax.reduce_and(x, tuple(axes)) if is_bool(x) else lax.reduce_min(x, tuple(axes))


@lowers("amax max.default")
def _amax(ctx: Context, self: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    axes = axes_of(self, dim)
    return kept(reduce_max(self, axes), axes, keepdim)


@lowers("amin min.default")
def _amin(ctx: Context, self: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    axes = axes_of(self, dim)
    return kept(reduce_min(self, axes), axes, keepdim)


@lowers("aminmax")
def _aminmax(ctx: Context, self: Array, dim: Dims = None, keepdim: bool = False) -> tuple[Array, Array]:
    axes = axes_of(self, dim)
    return kept(reduce_min(self, axes), axes, keepdim), kept(reduce_max(self, axes), axes, keepdim)


def first_where(condition: Array, axis: int) -> Array:
    """Along `axis`, the lowest index where `condition` holds (int64); one must hold."""
    index = lax.broadcasted_iota(_INT64, condition.shape, axis)
    beyond = lax.full(condition.shape, condition.shape[axis], _INT64)
    return lax.reduce_min(lax.select(condition, index, beyond), (axis,))


def _extreme_and_index(x: Array, axis: int, largest: bool) -> tuple[Array, Array]:
    extreme = (reduce_max if largest else reduce_min)(x, (axis,))
    everywhere = _spread(extreme, (axis,), x.shape)
    # A NaN equals nothing: where the extreme is NaN, the first NaN is meant.
    matches = lax.bitwise_or(lax.eq(x, everywhere), lax.bitwise_and(is_nan(x), is_nan(everywhere)))
    return extreme, first_where(matches, axis)


def _extreme_along(largest: bool) -> Any:
    def rule(ctx: Context, self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        if self.ndim == 0:
            return self, lax.full((), 0, _INT64)
        axes = axes_of(self, dim)
        extreme, index = _extreme_and_index(self, axes[0], largest)
        return kept(extreme, axes, keepdim), kept(index, axes, keepdim)

    return rule


register("max.dim", _extreme_along(True))
register("min.dim", _extreme_along(False))


def _arg_extreme(largest: bool) -> Any:
    def rule(ctx: Context, self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        flat = lax.reshape(self, (self.size,)) if dim is None or self.ndim == 0 else self
        axes = axes_of(flat, 0 if dim is None or self.ndim == 0 else dim)
        index = _extreme_and_index(flat, axes[0], largest)[1]
        return lax.reshape(index, ctx.shape)

    return rule


register("argmax", _arg_extreme(True))
register("argmin", _arg_extreme(False))


def _test(every: bool) -> Callable[[Context, Array, tuple[int, ...]], Array]:
    """any or all along axes. On uint8 the result is uint8 as well (0 or 1), as in PyTorch."""

    def reduce(ctx: Context, x: Array, axes: tuple[int, ...]) -> Array:
        if x.dtype == np.dtype("uint8") and ctx.dtype == x.dtype:
            reduced = (lax.reduce_min if every else lax.reduce_max)(x, axes)
            return lax.min(reduced, like(reduced, 1))
        truth = x if is_bool(x) else lax.ne(x, like(x, 0))
        return (lax.reduce_and if every else lax.reduce_or)(truth, axes)

    return reduce


def _register_test(name: str, reduce: Callable[[Context, Array, tuple[int, ...]], Array]) -> None:
    def rule(ctx: Context, self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        axes = axes_of(self, dim)
        return kept(reduce(ctx, self, axes), axes, keepdim)

    def several(ctx: Context, self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        """An empty list of dims reduces nothing here, unlike in sum."""
        axes = () if dim == () else axes_of(self, dim)
        return kept(reduce(ctx, self, axes), axes, keepdim)

    register(f"{name} _is_{name}_true", rule)
    register(f"{name}.dims", several)


_register_test("any", _test(False))
_register_test("all", _test(True))


# Norms and logarithms of sums ------------------------------------------------------------------------------


def _magnitude(x: Array) -> Array:
    return x if x.dtype.kind == "u" else lax.abs(x)


def _norm(ctx: Context, x: Array, order: float, axes: tuple[int, ...]) -> Array:
    """The vector p-norm; p = 0 counts, p = +-inf takes the extreme."""
    if order == 2:
        if is_complex(x):
            real, imaginary = lax.real(x), lax.imag(x)
            square = lax.add(lax.mul(real, real), lax.mul(imaginary, imaginary))
        else:
            square = lax.mul(x, x)
        return lax.sqrt(_real_sum(ctx, square, axes))
    size = _magnitude(x)
    if order == math.inf:
        return lax.reduce_max(size, axes) if _count(x, axes) else _norm(ctx, x, 1, axes)
    if order == -math.inf:
        return lax.reduce_min(size, axes)
    if order == 0:
        return _real_sum(ctx, _ones_where(lax.ne(size, like(size, 0)), size.dtype), axes)
    if order == 1:
        return _real_sum(ctx, size, axes)
    powers = _real_sum(ctx, lax.pow(size, like(size, order)), axes)
    return lax.pow(powers, like(powers, 1 / order))


def _real_sum(ctx: Context, x: Array, axes: tuple[int, ...]) -> Array:
    """ctx.sum; the components of a complex operand are summed in their own dtype."""
    assert ctx.accumulate is not None
    return lax.reduce_sum(x, axes) if ctx.accumulate.kind == "c" else ctx.sum(x, axes)


@lowers("linalg_vector_norm")
def _vector_norm(ctx: Context, self: Array, ord: float = 2, dim: Dims = None, keepdim: bool = False) -> Array:
    axes = axes_of(self, dim)
    return kept(_norm(ctx, self, float(ord), axes), axes, keepdim)


@lowers("norm native_norm")
def _general_norm(ctx: Context, self: Array, p: float | None = 2, dim: Dims = None, keepdim: bool = False) -> Array:
    axes = axes_of(self, dim)
    return kept(_norm(ctx, self, 2.0 if p is None else float(p), axes), axes, keepdim)


@lowers("dist")
def _dist(ctx: Context, self: Array, other: Array, p: float = 2) -> Array:
    difference = lax.sub(*_broadcast_together(self, other))
    return _norm(ctx, difference, float(p), tuple(range(difference.ndim)))


def _broadcast_together(x: Array, y: Array) -> tuple[Array, Array]:
    shape = np.broadcast_shapes(x.shape, y.shape)
    first, second = (lax.broadcast_in_dim(a, shape, range(len(shape) - a.ndim, len(shape))) for a in (x, y))
    return first, second


@lowers("renorm")
def _renorm(ctx: Context, self: Array, p: float, dim: int, maxnorm: float) -> Array:
    """Slices along dim whose p-norm exceeds maxnorm are scaled down to it (1e-7 keeps the quotient finite)."""
    keep = dim % self.ndim
    axes = tuple(axis for axis in range(self.ndim) if axis != keep)
    norm = _norm(ctx, self, float(p), axes)
    factor = lax.div(like(norm, float(maxnorm)), lax.add(norm, like(norm, 1e-7)))
    factor = lax.select(lax.gt(norm, like(norm, float(maxnorm))), factor, like(norm, 1))
    if is_complex(self):
        factor = lax.complex(factor, like(factor, 0))
    return lax.mul(self, lax.broadcast_in_dim(factor, self.shape, (keep,)))


@lowers("logsumexp")
def _logsumexp(ctx: Context, self: Array, dim: Dims, keepdim: bool = False) -> Array:
    """Around the largest real part, unless that is infinite."""
    axes = axes_of(self, dim)
    if _count(self, axes) == 0:
        return kept(lax.log(ctx.sum(self, axes)), axes, keepdim)
    real = lax.real(self) if is_complex(self) else self
    largest = lax.reduce_max(real, axes)
    infinite = lax.eq(lax.abs(largest), like(largest, math.inf))
    shift = lax.select(infinite, like(largest, 0), largest)
    if is_complex(self):
        shift = lax.complex(shift, like(shift, 0))
    powers = lax.exp(lax.sub(self, _spread(shift, axes, self.shape)))
    return kept(lax.add(lax.log(ctx.sum(powers, axes)), shift), axes, keepdim)


@lowers("equal")
def _equal(ctx: Context, self: Array, other: Array) -> Array:
    if self.shape != other.shape:
        return lax.full((), False)
    return lax.reduce_and(lax.eq(self, other), tuple(range(self.ndim)))

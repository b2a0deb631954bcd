"""Sums and products along axes, held in a declared dtype (law N4), whole or running.

When a 16-bit accumulator is asked for, each partial result is rounded to it right where it is formed (law N3,
rounding "op"): a backend that widens bfloat16 internally would otherwise keep float32 across the whole sum,
and the policy would be a name without an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import ml_dtypes
import numpy as np
from jax import lax

Array: TypeAlias = jax.Array
_Combine = Callable[[Array, Array], Array]


def total(x: Array, axes: Sequence[int], accumulate: np.dtype[Any], rounding: str) -> Array:
    """The sum of x along `axes`, in `accumulate`."""
    x = lax.convert_element_type(x, accumulate)
    if _rounds(accumulate, rounding):
        return lax.reduce(x, np.zeros((), accumulate)[()], _rounded(lax.add, accumulate), tuple(axes))
    return lax.reduce_sum(x, tuple(axes))


def adder(accumulate: np.dtype[Any], rounding: str) -> _Combine:
    """Addition of two arrays in `accumulate`, for sums that are no reduction along an axis."""
    return _rounded(lax.add, accumulate) if _rounds(accumulate, rounding) else lax.add


def product(x: Array, axes: Sequence[int], accumulate: np.dtype[Any], rounding: str) -> Array:
    """The product of x along `axes`, in `accumulate`."""
    x = lax.convert_element_type(x, accumulate)
    if _rounds(accumulate, rounding):
        return lax.reduce(x, np.ones((), accumulate)[()], _rounded(lax.mul, accumulate), tuple(axes))
    return lax.reduce_prod(x, tuple(axes))


def running_total(x: Array, axis: int, accumulate: np.dtype[Any], rounding: str) -> Array:
    """Along `axis`, the sum of each element and all before it, in `accumulate`."""
    x = lax.convert_element_type(x, accumulate)
    if _rounds(accumulate, rounding):
        return lax.associative_scan(_rounded(lax.add, accumulate), x, axis=axis)
    return lax.cumsum(x, axis)


def running_product(x: Array, axis: int, accumulate: np.dtype[Any], rounding: str) -> Array:
    """Along `axis`, the product of each element and all before it, in `accumulate`."""
    x = lax.convert_element_type(x, accumulate)
    if _rounds(accumulate, rounding):
        return lax.associative_scan(_rounded(lax.mul, accumulate), x, axis=axis)
    return lax.cumprod(x, axis)


def _rounds(accumulate: np.dtype[Any], rounding: str) -> bool:
    return rounding != "compiler" and accumulate.kind in "fV" and accumulate.itemsize <= 2


def _rounded(combine: _Combine, dtype: np.dtype[Any]) -> _Combine:
    info = ml_dtypes.finfo(dtype)

    def step(a: Array, b: Array) -> Array:
        return lax.reduce_precision(combine(a, b), info.nexp, info.nmant)

    return step

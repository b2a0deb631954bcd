"""Fourier transforms: the three kernels that every torch.fft function dispatches.

`normalization` is ATen's: 0 none, 1 divides by sqrt(n), 2 by n, over the transformed extents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers

_KIND = lax.FftType


def _along(x: Array, axis: int, kind: lax.FftType, length: int) -> Array:
    """The transform along one axis. XLA divides its inverse transforms by n; ATen's kernels don't."""
    moved = jnp.moveaxis(x, axis, -1)
    if moved.size == 0:
        return x
    moved = lax.fft(moved, kind, (length,))
    if kind in (_KIND.IFFT, _KIND.IRFFT):
        moved = moved * lax.full((), length, moved.dtype)
    return jnp.moveaxis(moved, -1, axis)


def _normalized(x: Array, count: int, normalization: int) -> Array:
    if normalization == 0:
        return x
    return x / lax.full((), count if normalization == 2 else math.sqrt(count), x.dtype)


@lowers("_fft_c2c")
def _c2c(ctx: Context, self: Array, dim: Sequence[int], normalization: int, forward: bool) -> Array:
    x = self
    for axis in dim:
        x = _along(x, axis, _KIND.FFT if forward else _KIND.IFFT, self.shape[axis])
    return _normalized(x, math.prod(self.shape[axis] for axis in dim), normalization)


@lowers("_fft_r2c")
def _r2c(ctx: Context, self: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Array:
    if onesided:
        x = _along(self, dim[-1], _KIND.RFFT, self.shape[dim[-1]])
        rest = dim[:-1]
    else:
        x, rest = lax.complex(self, jnp.zeros_like(self)), dim
    for axis in rest:
        x = _along(x, axis, _KIND.FFT, self.shape[axis])
    return _normalized(x, math.prod(self.shape[axis] for axis in dim), normalization)


@lowers("_fft_c2r")
def _c2r(ctx: Context, self: Array, dim: Sequence[int], normalization: int, last_dim_size: int) -> Array:
    x = self
    for axis in dim[:-1]:
        x = _along(x, axis, _KIND.IFFT, self.shape[axis])
    # ATen reads as many frequencies as the length needs.
    x = lax.slice_in_dim(x, 0, last_dim_size // 2 + 1, axis=dim[-1])
    x = _along(x, dim[-1], _KIND.IRFFT, last_dim_size)
    return _normalized(x, math.prod(self.shape[a] for a in dim[:-1]) * last_dim_size, normalization)

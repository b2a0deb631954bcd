"""Scans: along one dim, each element with all before it. Sums and products accumulate as law N4 says."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.elementwise import is_complex, is_nan
from truecast.lowering.registry import lowers
from truecast.lowering.special import log_add_exp


@lowers("cumsum")
def _cumsum(ctx: Context, self: Array, dim: int) -> Array:
    return ctx.running_sum(self, dim % self.ndim) if self.ndim else self


@lowers("cumprod")
def _cumprod(ctx: Context, self: Array, dim: int) -> Array:
    return ctx.running_product(self, dim % self.ndim) if self.ndim else self


@lowers("logcumsumexp _logcumsumexp")
def _logcumsumexp(ctx: Context, self: Array, dim: int) -> Array:
    if self.ndim == 0:
        return self
    return ctx.computed(lax.associative_scan(log_add_exp, ctx.accumulated(self), axis=dim % self.ndim))


def _running_extreme(largest: bool) -> Any:
    """Value and index of the extreme so far. Of equal elements the last one counts, and a NaN stays."""

    def combine(before: tuple[Array, Array], after: tuple[Array, Array]) -> tuple[Array, Array]:
        value, index = before
        next_value, next_index = after
        better = lax.ge(next_value, value) if largest else lax.le(next_value, value)
        takes = lax.bitwise_or(is_nan(next_value), lax.bitwise_and(better, lax.bitwise_not(is_nan(value))))
        return lax.select(takes, next_value, value), lax.select(takes, next_index, index)

    def rule(ctx: Context, self: Array, dim: int) -> tuple[Array, Array]:
        if self.ndim == 0:
            return self, lax.full((), 0, np.dtype("int64"))
        if is_complex(self):
            ctx.unsupported("of complex numbers, which have no order", "take it of torch.abs(x)")
        axis = dim % self.ndim
        index = lax.broadcasted_iota(np.dtype("int64"), self.shape, axis)
        values, indices = lax.associative_scan(combine, (self, index), axis=axis)
        return values, indices

    return rule


lowers("cummax")(_running_extreme(True))
lowers("cummin")(_running_extreme(False))

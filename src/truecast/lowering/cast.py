"""The user's own conversions between dtypes, as PyTorch eager converts on the CPU (law N7).

The one family whose rules convert, since converting is what the program says here. Everything that fills a
tensor from a value of another dtype (copy, fill, full with a scalar input) goes through `converted`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.elementwise import is_complex, is_float, like, trunc
from truecast.lowering.registry import lowers, register

_INT32, _INT64 = np.dtype("int32"), np.dtype("int64")


def converted(x: Array, dtype: np.dtype[Any]) -> Array:
    """x in `dtype`. To bool: whether it is not zero (NaN is True). Complex to real: the real part."""
    if x.dtype == dtype:
        return x
    if dtype == np.dtype(bool):
        return lax.ne(x, like(x, 0))
    if is_complex(x) and dtype.kind != "c":
        return converted(lax.real(x), dtype)
    if is_float(x) and dtype.kind in "iu":
        return _float_to_integer(x, dtype)
    return lax.convert_element_type(x, dtype)


def _float_to_integer(x: Array, dtype: np.dtype[Any]) -> Array:
    """Truncation towards zero. What does not fit: x86's cvttss2si gives the lowest integer of its register (32
    bits, or 64 for a 64-bit or uint32 target), and a narrower dtype keeps that register's low bits. XLA's own
    conversion saturates and maps NaN to 0, hence the test of the range."""
    register_dtype = _INT32 if dtype.itemsize < 4 or dtype == _INT32 else _INT64
    bound = 2.0 ** (8 * register_dtype.itemsize - 1)
    truncated = trunc(x)
    # -bound itself is representable and fits; +bound does not, and neither does NaN.
    fits = lax.bitwise_and(lax.ge(truncated, like(x, -bound)), lax.lt(truncated, like(x, bound)))
    inside = lax.convert_element_type(lax.select(fits, truncated, like(x, 0)), register_dtype)
    lowest = lax.full(x.shape, np.iinfo(register_dtype).min, register_dtype)
    return lax.convert_element_type(lax.select(fits, inside, lowest), dtype)


register("_to_copy to.dtype _to_dense", lambda ctx, self, **_: converted(self, ctx.dtype))


@lowers("copy")
def _copy(ctx: Context, self: Array, src: Array) -> Array:
    return broadcast_to(converted(src, ctx.dtype), ctx.shape)


def broadcast_to(x: Array, shape: tuple[int, ...]) -> Array:
    return lax.broadcast_in_dim(x, shape, range(len(shape) - x.ndim, len(shape)))

"""Complex numbers: from their parts, into their parts, conjugation and angle. (Arithmetic is in elementwise.py.)"""

from __future__ import annotations

import math

from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.elementwise import is_complex, is_nan, like
from truecast.lowering.registry import lowers, register


def conjugate(x: Array) -> Array:
    return lax.conj(x) if is_complex(x) else x


register("_conj _conj_copy _conj_physical", lambda ctx, self: conjugate(self))


@lowers("angle")
def _angle(ctx: Context, self: Array) -> Array:
    if is_complex(self):
        return lax.atan2(lax.imag(self), lax.real(self))
    straight = lax.select(lax.lt(self, like(self, 0)), like(self, math.pi), like(self, 0))
    return lax.select(is_nan(self), self, straight)


@lowers("complex")
def _complex(ctx: Context, real: Array, imag: Array) -> Array:
    return lax.complex(real, imag)


@lowers("polar")
def _polar(ctx: Context, abs: Array, angle: Array) -> Array:
    return lax.complex(lax.mul(abs, lax.cos(angle)), lax.mul(abs, lax.sin(angle)))

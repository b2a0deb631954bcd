"""Division that rounds once (laws N3 and N7), whatever a compiler knows of the divisor.

XLA rewrites a division by a constant as a multiplication by its reciprocal, which has been rounded already: in float32
every third quotient by 7 is off by a unit in the last place, 41 / 41 is 0.99999994, and truncates to 0.
"""

from __future__ import annotations

import jax
from jax import lax

from truecast import dtypes


def divided(x: jax.Array, divisor: jax.Array) -> jax.Array:
    """x / divisor, both of one shape and dtype, where the divisor may be a constant."""
    if not dtypes.of(x.dtype).is_floating:
        return lax.div(x, divisor)
    # Where x is NaN the divisor is too: that changes no quotient, but makes a value that depends on x.
    return lax.div(x, lax.select(lax.ne(x, x), x, divisor))

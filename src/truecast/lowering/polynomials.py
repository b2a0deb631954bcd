"""Orthogonal polynomials of a degree that differs from element to element, by their three-term recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax import lax

from truecast.lowering.context import Array
from truecast.lowering.elementwise import like, trunc
from truecast.lowering.registry import register


def _recurrence(
    first: Callable[[Array], Array], step: Callable[[Array, Array, Array, Array], Array]
) -> Callable[[Array, Array], Array]:
    """The polynomial of degree n with p0 = 1, p1 = first(x) and p(k+1) = step(k, x, pk, p(k-1)); 0 for n < 0.

    n differs from element to element: each keeps its value when k reaches it. Like PyTorch's kernels, it drops the
    fraction of n first: a degree of -0.5 is 0.
    """

    def polynomial(x: Array, n: Array) -> Array:
        degree = trunc(n)
        one, zero = like(x, 1), like(x, 0)
        start = first(x)
        result = lax.select(lax.eq(degree, zero), one, lax.select(lax.lt(degree, zero), zero, start))
        highest = lax.reduce_max(degree, tuple(range(degree.ndim)))

        def busy(state: tuple[Any, ...]) -> Array:
            return lax.lt(state[0], highest)

        def advance(state: tuple[Any, ...]) -> tuple[Any, ...]:
            k, previous, current, result = state
            following = step(lax.broadcast(k, x.shape), x, current, previous)
            k = lax.add(k, lax.full((), 1, k.dtype))
            reached = lax.eq(degree, lax.broadcast(k, x.shape))
            return k, current, following, lax.select(reached, following, result)

        return lax.while_loop(busy, advance, (lax.full((), 1, x.dtype), one, start, result))[3]

    return polynomial


def _twice(x: Array) -> Array:
    return lax.add(x, x)


def _chebyshev_step(k: Array, x: Array, current: Array, previous: Array) -> Array:
    return lax.sub(lax.mul(_twice(x), current), previous)


def _plus(constant: float, slope: float) -> Callable[[Array], Array]:
    return lambda x: lax.add(lax.mul(like(x, slope), x), like(x, constant))


def _shifted(polynomial: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda x, n: polynomial(lax.sub(_twice(x), like(x, 1)), n)


def _hermite_step(k: Array, x: Array, current: Array, previous: Array) -> Array:
    return lax.sub(lax.mul(_twice(x), current), lax.mul(_twice(k), previous))


def _hermite_e_step(k: Array, x: Array, current: Array, previous: Array) -> Array:
    return lax.sub(lax.mul(x, current), lax.mul(k, previous))


def _laguerre_step(k: Array, x: Array, current: Array, previous: Array) -> Array:
    odd = lax.add(_twice(k), like(k, 1))
    return lax.div(lax.sub(lax.mul(lax.sub(odd, x), current), lax.mul(k, previous)), lax.add(k, like(k, 1)))


def _legendre_step(k: Array, x: Array, current: Array, previous: Array) -> Array:
    odd = lax.add(_twice(k), like(k, 1))
    return lax.div(lax.sub(lax.mul(lax.mul(odd, x), current), lax.mul(k, previous)), lax.add(k, like(k, 1)))


_CHEBYSHEV = {
    kind: _recurrence(first, _chebyshev_step)
    for kind, first in {"t": _plus(0, 1), "u": _plus(0, 2), "v": _plus(-1, 2), "w": _plus(1, 2)}.items()
}
_POLYNOMIALS = {
    **{f"chebyshev_polynomial_{kind}": p for kind, p in _CHEBYSHEV.items()},
    **{f"shifted_chebyshev_polynomial_{kind}": _shifted(p) for kind, p in _CHEBYSHEV.items()},
    "hermite_polynomial_h": _recurrence(_plus(0, 2), _hermite_step),
    "hermite_polynomial_he": _recurrence(_plus(0, 1), _hermite_e_step),
    "laguerre_polynomial_l": _recurrence(_plus(1, -1), _laguerre_step),
    "legendre_polynomial_p": _recurrence(_plus(0, 1), _legendre_step),
}
for _name, _polynomial in _POLYNOMIALS.items():
    register(f"special_{_name}", lambda ctx, x, n, polynomial=_polynomial: polynomial(x, n))

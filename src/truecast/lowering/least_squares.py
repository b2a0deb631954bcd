"""Least squares: LAPACK's four drivers, in the two ways that they go.

gels takes the matrix to have full rank and solves with its QR factorization. The others find the rank and give the
solution of least norm; here from the singular values above rcond times the largest, for gelsy too, which estimates
them from a pivoted QR factorization.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.linalg import Arrays, adjoint, matmul
from truecast.lowering.registry import lowers


def _of_full_rank(a: Array, b: Array) -> Array:
    """The least-squares solution of a tall system, the one of least norm of a wide one."""
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    if a.shape[-2] >= a.shape[-1]:
        q, r = lax.linalg.qr(a, full_matrices=False)
        return lax.linalg.triangular_solve(r, matmul(adjoint(q), b), left_side=True, lower=False)
    q, r = lax.linalg.qr(adjoint(a), full_matrices=False)  # a = r^H q^H
    inner = lax.linalg.triangular_solve(r, b, left_side=True, lower=False, transpose_a=True, conjugate_a=True)
    return matmul(q, inner)


def _of_least_norm(a: Array, b: Array, rcond: float) -> tuple[Array, Array, Array]:
    """(solution, rank, singular values)."""
    left, values, right = lax.linalg.svd(a, full_matrices=False)
    kept = values > jnp.asarray(rcond, values.dtype) * values[..., :1]
    inverse = jnp.where(kept, 1 / jnp.where(kept, values, jnp.ones_like(values)), jnp.zeros_like(values))
    scaled = lax.convert_element_type(inverse, a.dtype)[..., None] * matmul(adjoint(left), b)
    return matmul(adjoint(right), scaled), jnp.sum(kept, axis=-1, dtype="int64"), values


@lowers("linalg_lstsq")
def _lstsq(ctx: Context, self: Array, b: Array, rcond: float | None = None, driver: str | None = None) -> Arrays:
    """Solution, residuals (squared, of an overdetermined system), rank, singular values; empty where the driver has
    none."""
    wanted = tuple(value is not None and value.size > 0 for value in ctx.outputs)
    vector = b.shape == self.shape[:-1]
    right = b[..., None] if vector else b
    real = jnp.real(self).dtype
    residuals, rank, spectrum = jnp.zeros((0,), real), jnp.zeros((0,), "int64"), jnp.zeros((0,), real)
    if 0 in self.shape[-2:]:
        batch = jnp.broadcast_shapes(self.shape[:-2], right.shape[:-2])
        x = jnp.zeros((*batch, self.shape[-1], right.shape[-1]), self.dtype)
        found, values = jnp.zeros(self.shape[:-2], "int64"), spectrum
    elif driver == "gels":
        x, found, values = _of_full_rank(self, right), rank, spectrum
    else:
        cutoff = float(jnp.finfo(real).eps) * max(self.shape[-2:]) if rcond is None else rcond
        x, found, values = _of_least_norm(self, right, cutoff)
    if wanted[1]:
        rest = right - matmul(self, x)
        residuals = jnp.sum(jnp.real(rest * jnp.conj(rest)), axis=-2)
    return (
        x[..., 0] if vector else x,
        residuals,
        found if wanted[2] else rank,
        values if wanted[3] else spectrum,
    )

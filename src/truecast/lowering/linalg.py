"""Factorizations, spectra and functions of matrices. LU and the solvers stand in solve.py.

They exist in float32, float64 and their complex counterparts. Where a factor is unique only up to a sign or a
phase (svd, eigh, eig), ours may differ from eager's by it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers

Arrays = tuple[Array | None, ...]


def transposed(x: Array) -> Array:
    return jnp.swapaxes(x, -1, -2)


def adjoint(x: Array) -> Array:
    return jnp.conj(transposed(x))


def diagonal(x: Array) -> Array:
    return jnp.diagonal(x, axis1=-2, axis2=-1)


def matmul(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def _empty(ctx: Context, position: int) -> Array | None:
    """The empty tensor that eager returns for a factor nobody asked for."""
    value = ctx.outputs[position]
    return None if value is None else lax.full(value.shape, 0, ctx.compute)


# ---- Cholesky ------------------------------------------------------------------------------------------------------


def _cholesky_factor(self: Array, upper: bool) -> Array:
    # Only the named triangle is read, as in LAPACK.
    lower = lax.linalg.cholesky(adjoint(self) if upper else self, symmetrize_input=False)
    return adjoint(lower) if upper else lower


@lowers("linalg_cholesky_ex")
def _cholesky_ex(ctx: Context, self: Array, upper: bool = False, check_errors: bool = False) -> Arrays:
    """The factor, NaN where the matrix isn't positive definite, and info: 0, or there the order of the first leading
    minor that isn't."""
    factor = _cholesky_factor(self, upper)
    failed = jnp.any(jnp.isnan(diagonal(factor)), axis=-1)
    none = lax.full(failed.shape, 0, "int32")
    if not self.size:
        return factor, none
    order = lax.cond(jnp.any(failed), lambda: _order_of_failure(adjoint(self) if upper else self), lambda: none)
    return factor, jnp.where(failed, lax.max(order, lax.full_like(order, 1)), none)


def _order_of_failure(self: Array) -> Array:
    """The step of elimination in the lower triangle at which the first pivot is not positive; 0 if all are."""
    lower = jnp.tril(self)
    whole = lower + adjoint(jnp.tril(self, -1))

    def eliminate(step: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, order = state
        column = lax.dynamic_index_in_dim(rest, step, -1, keepdims=False)
        pivot = jnp.real(lax.dynamic_index_in_dim(column, step, -1, keepdims=False))
        failed = (order == 0) & ~(pivot > 0)
        scaled = column / pivot[..., None]
        rest = rest - scaled[..., :, None] * jnp.conj(column)[..., None, :]
        return rest, jnp.where(failed, lax.convert_element_type(step + 1, "int32"), order)

    order = lax.full(self.shape[:-2], 0, "int32")
    return lax.fori_loop(0, self.shape[-1], eliminate, (whole, order))[1]


@lowers("cholesky")
def _cholesky(ctx: Context, self: Array, upper: bool = False) -> Array:
    return _cholesky_factor(self, upper)


@lowers("cholesky_inverse")
def _cholesky_inverse(ctx: Context, self: Array, upper: bool = False) -> Array:
    identity = jnp.broadcast_to(jnp.eye(self.shape[-1], dtype=self.dtype), self.shape)
    half = lax.linalg.triangular_solve(
        self, identity, left_side=True, lower=not upper, transpose_a=upper, conjugate_a=upper
    )
    return matmul(adjoint(half), half)


# ---- QR ------------------------------------------------------------------------------------------------------------


@lowers("linalg_qr")
def _qr(ctx: Context, A: Array, mode: str = "reduced") -> Arrays:
    q, r = lax.linalg.qr(A, full_matrices=mode == "complete")
    return _empty(ctx, 0) if mode == "r" else q, r


@lowers("geqrf")
def _geqrf(ctx: Context, self: Array) -> Arrays:
    packed, tau = jnp.linalg.qr(self, mode="raw")  # packed comes transposed, as NumPy has it
    return transposed(packed), tau


@lowers("linalg_householder_product")
def _householder_product(ctx: Context, input: Array, tau: Array) -> Array:
    if tau.shape[-1] == 0:
        return jnp.broadcast_to(jnp.eye(input.shape[-2], input.shape[-1], dtype=input.dtype), input.shape)
    return lax.linalg.householder_product(input, tau)


# ---- spectra -------------------------------------------------------------------------------------------------------


@lowers("_linalg_eigh")
def _eigh(ctx: Context, A: Array, UPLO: str = "L", compute_v: bool = True) -> Arrays:
    triangle = jnp.triu(A) if UPLO.upper() == "U" else jnp.tril(A)
    whole = triangle + adjoint(triangle)
    real_diagonal = lax.convert_element_type(jnp.real(diagonal(A)), A.dtype)
    index = jnp.arange(A.shape[-1])
    symmetric = whole.at[..., index, index].set(real_diagonal)
    vectors, values = lax.linalg.eigh(symmetric, symmetrize_input=False, sort_eigenvalues=True)
    return values, vectors if compute_v else _empty(ctx, 1)


@lowers("_linalg_svd")
def _svd(ctx: Context, A: Array, full_matrices: bool = False, compute_uv: bool = True, driver: Any = None) -> Arrays:
    if not compute_uv:
        return _empty(ctx, 0), lax.linalg.svd(A, compute_uv=False), _empty(ctx, 2)
    return tuple(lax.linalg.svd(A, full_matrices=full_matrices))


@lowers("linalg_eig")
def _eig(ctx: Context, self: Array) -> Arrays:
    values, vectors = lax.linalg.eig(self, compute_left_eigenvectors=False)
    return values, vectors


@lowers("_linalg_eigvals")
def _eigvals(ctx: Context, self: Array) -> Array:
    (values,) = lax.linalg.eig(self, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return values


# ---- functions -----------------------------------------------------------------------------------------------------


@lowers("linalg_matrix_exp")
def _matrix_exp(ctx: Context, self: Array) -> Array:
    if self.size == 0:
        return self
    return jax.scipy.linalg.expm(self)


@lowers("linalg_pinv.atol_rtol_tensor")
def _pinv(
    ctx: Context, self: Array, atol: Array | None = None, rtol: Array | None = None, hermitian: bool = False
) -> Array:
    """The inverse over the singular values above max(atol, rtol * the largest); rtol is eps * max(m, n) if neither
    is given, and 0 where only atol is above 0."""
    if self.size == 0:
        return jnp.zeros((*self.shape[:-2], self.shape[-1], self.shape[-2]), self.dtype)
    if hermitian:
        vectors, values = lax.linalg.eigh(self, symmetrize_input=False)
        left, right, magnitudes = vectors, adjoint(vectors), lax.abs(values)
    else:
        left, values, right = lax.linalg.svd(self, full_matrices=False)
        magnitudes = values
    largest = jnp.max(magnitudes, axis=-1, keepdims=True)
    default = ctx.constant(float(jnp.finfo(values.dtype).eps) * max(self.shape[-2:]), values)
    zero = ctx.constant(0, values)
    absolute = zero if atol is None else ctx.scalar(atol, values)[..., None]
    if rtol is not None:
        relative = ctx.scalar(rtol, values)[..., None]
    else:
        relative = default if atol is None else jnp.where(absolute > 0, zero, default)
    kept = magnitudes > jnp.maximum(absolute, relative * largest)
    inverse = jnp.where(kept, ctx.constant(1, values) / jnp.where(kept, values, ctx.fill(1, values)), zero)
    scaled = adjoint(right) * lax.convert_element_type(inverse[..., None, :], right.dtype)
    return matmul(scaled, adjoint(left))


@lowers("linalg_cross")
def _cross(ctx: Context, self: Array, other: Array, dim: int = -1) -> Array:
    shape = jnp.broadcast_shapes(self.shape, other.shape)
    a = jnp.moveaxis(jnp.broadcast_to(self, shape), dim, 0)
    b = jnp.moveaxis(jnp.broadcast_to(other, shape), dim, 0)
    parts = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return jnp.moveaxis(jnp.stack(parts), 0, dim)

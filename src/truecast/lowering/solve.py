"""LU factorization, determinants, inverses and linear systems.

ATen keeps LAPACK's form: pivots are int32, count from 1, and say row i was swapped with row pivots[i], in order;
info is 0, or the (1-based) position of the first zero on U's diagonal.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.linalg import Arrays, diagonal, matmul
from truecast.lowering.registry import lowers


def _factor(A: Array) -> tuple[Array, Array, Array]:
    """(LU packed, pivots counted from 1, permutation)."""
    packed, pivots, permutation = lax.linalg.lu(A)
    return packed, pivots + jnp.asarray(1, pivots.dtype), permutation


def _info(packed: Array) -> Array:
    singular = diagonal(packed) == 0
    if singular.shape[-1] == 0:
        return lax.full(singular.shape[:-1], 0, "int32")
    first = jnp.argmax(singular, axis=-1).astype("int32") + jnp.asarray(1, "int32")
    return jnp.where(jnp.any(singular, axis=-1), first, jnp.asarray(0, "int32"))


def _permutation(pivots: Array, rows: int) -> Array:
    """The row order that pivots counted from 1 bring about."""
    return lax.linalg.lu_pivots_to_permutation(pivots - jnp.asarray(1, pivots.dtype), rows)


def _substitute(packed: Array, permutation: Array, B: Array, adjoint: bool = False) -> Array:
    """X with A X = B, or A^H X = B, from A = P L U."""
    if not adjoint:
        B = jnp.take_along_axis(B, permutation[..., None], axis=-2)
        B = lax.linalg.triangular_solve(packed, B, left_side=True, lower=True, unit_diagonal=True)
        return lax.linalg.triangular_solve(packed, B, left_side=True, lower=False)
    B = lax.linalg.triangular_solve(packed, B, left_side=True, lower=False, transpose_a=True, conjugate_a=True)
    B = lax.linalg.triangular_solve(
        packed, B, left_side=True, lower=True, transpose_a=True, conjugate_a=True, unit_diagonal=True
    )
    return jnp.take_along_axis(B, jnp.argsort(permutation, axis=-1)[..., None], axis=-2)


def _broadcast_batch(a: Array, core: int, batch: tuple[int, ...]) -> Array:
    return jnp.broadcast_to(a, (*batch, *a.shape[a.ndim - core :]))


@lowers("linalg_lu_factor_ex")
def _lu_factor(ctx: Context, A: Array, pivot: bool = True, check_errors: bool = False) -> Arrays:
    if not pivot:
        ctx.unsupported("with pivot=False", help="pivot=True; on the CPU eager has no other form either")
    packed, pivots, _ = _factor(A)
    return packed, pivots, _info(packed)


def _unpacked(packed: Array) -> tuple[Array, Array]:
    rows, columns = packed.shape[-2:]
    rank = min(rows, columns)
    lower = jnp.tril(packed[..., :, :rank], -1) + jnp.eye(rows, rank, dtype=packed.dtype)
    return lower, jnp.triu(packed[..., :rank, :])


def _permutation_matrix(permutation: Array, like: Array) -> Array:
    """P with A = P L U: row permutation[i] of P L U is row i of L U."""
    rows = permutation.shape[-1]
    return lax.convert_element_type(permutation[..., None, :] == jnp.arange(rows)[:, None], like.dtype)


@lowers("linalg_lu")
def _lu(ctx: Context, A: Array, pivot: bool = True) -> Arrays:
    if not pivot:
        ctx.unsupported("with pivot=False", help="pivot=True; on the CPU eager has no other form either")
    packed, _, permutation = _factor(A)
    return (_permutation_matrix(permutation, A), *_unpacked(packed))


@lowers("lu_unpack")
def _lu_unpack(
    ctx: Context, LU_data: Array, LU_pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True
) -> Arrays:
    empty = lax.full((0,), 0, LU_data.dtype)
    matrix = empty
    if unpack_pivots:
        matrix = _permutation_matrix(_permutation(LU_pivots, LU_data.shape[-2]), LU_data)
    return (matrix, *(_unpacked(LU_data) if unpack_data else (empty, empty)))


@lowers("linalg_lu_solve")
def _lu_solve(ctx: Context, LU: Array, pivots: Array, B: Array, left: bool = True, adjoint: bool = False) -> Array:
    batch = jnp.broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    packed, right = _broadcast_batch(LU, 2, batch), _broadcast_batch(B, 2, batch)
    permutation = _permutation(_broadcast_batch(pivots, 1, batch), LU.shape[-2])
    if left:
        return _substitute(packed, permutation, right, adjoint)
    # X A = B is A^H X^H = B^H.
    flipped = jnp.conj(jnp.swapaxes(right, -1, -2))
    return jnp.conj(jnp.swapaxes(_substitute(packed, permutation, flipped, not adjoint), -1, -2))


@lowers("linalg_inv_ex")
def _inverse(ctx: Context, A: Array, check_errors: bool = False) -> Arrays:
    packed, _, permutation = _factor(A)
    identity = jnp.broadcast_to(jnp.eye(A.shape[-1], dtype=A.dtype), A.shape)
    return _substitute(packed, permutation, identity), _info(packed)


@lowers("_linalg_solve_ex")
def _solve(ctx: Context, A: Array, B: Array, left: bool = True, check_errors: bool = False) -> Arrays:
    """The solution, then what eager keeps for the backward: LU, pivots, info."""
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    packed, pivots, permutation = _factor(A)
    right = B[..., None] if vector else B
    batch = jnp.broadcast_shapes(A.shape[:-2], right.shape[:-2])
    wide = _broadcast_batch(packed, 2, batch), _broadcast_batch(permutation, 1, batch)
    right = _broadcast_batch(right, 2, batch)
    if left:
        x = _substitute(*wide, right)
    else:
        flipped = jnp.conj(jnp.swapaxes(right, -1, -2))
        x = jnp.conj(jnp.swapaxes(_substitute(*wide, flipped, adjoint=True), -1, -2))
    return x[..., 0] if vector else x, packed, pivots, _info(packed)


def _parity(pivots: Array, like: Array) -> Array:
    """-1 per row swap."""
    swaps = jnp.sum(pivots != jnp.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype), axis=-1)
    one = lax.full(swaps.shape, 1, like.dtype)
    return jnp.where(swaps % 2 == 0, one, -one)


def _factor_as_determinants_do(A: Array) -> tuple[Array, Array]:
    """ATen factors the transpose of a real, contiguous matrix (what LAPACK sees without a copy), and the backward
    that autograd dispatches solves with the result accordingly. A Graph has no strides: every real matrix counts as
    contiguous here, and capture transposes one that isn't (capture/strides.py)."""
    packed, pivots, _ = _factor(A if jnp.iscomplexobj(A) else jnp.swapaxes(A, -1, -2))
    return packed, pivots


@lowers("_linalg_det")
def _det(ctx: Context, A: Array) -> Arrays:
    packed, pivots = _factor_as_determinants_do(A)
    return _parity(pivots, A) * jnp.prod(diagonal(packed), axis=-1), packed, pivots


@lowers("_linalg_slogdet")
def _slogdet(ctx: Context, A: Array) -> Arrays:
    packed, pivots = _factor_as_determinants_do(A)
    entries = diagonal(packed)
    magnitudes = lax.abs(entries)
    sign = _parity(pivots, A) * jnp.prod(lax.sign(entries), axis=-1)
    return sign, jnp.sum(lax.log(magnitudes), axis=-1), packed, pivots


@lowers("linalg_solve_triangular")
def _solve_triangular(
    ctx: Context, self: Array, B: Array, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    batch = jnp.broadcast_shapes(self.shape[:-2], B.shape[:-2])
    return lax.linalg.triangular_solve(
        _broadcast_batch(self, 2, batch),
        _broadcast_batch(B, 2, batch),
        left_side=left,
        lower=not upper,
        unit_diagonal=unitriangular,
    )


@lowers("triangular_solve")
def _triangular_solve(
    ctx: Context, self: Array, A: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Arrays:
    """The solution of A X = self, and a copy of A."""
    batch = jnp.broadcast_shapes(self.shape[:-2], A.shape[:-2])
    matrix = _broadcast_batch(A, 2, batch)
    solution = lax.linalg.triangular_solve(
        matrix,
        _broadcast_batch(self, 2, batch),
        left_side=True,
        lower=not upper,
        transpose_a=transpose,
        unit_diagonal=unitriangular,
    )
    return solution, matrix


@lowers("cholesky_solve _cholesky_solve_helper")
def _cholesky_solve(
    ctx: Context, self: Array, input2: Array | None = None, upper: bool = False, **rest: Array
) -> Array:
    """X with M X = self, where M = L L^H or U^H U."""
    factor = rest["A"] if input2 is None else input2
    batch = jnp.broadcast_shapes(self.shape[:-2], factor.shape[:-2])
    factor, right = _broadcast_batch(factor, 2, batch), _broadcast_batch(self, 2, batch)
    for turned in (upper, not upper):
        right = lax.linalg.triangular_solve(
            factor, right, left_side=True, lower=not upper, transpose_a=turned, conjugate_a=turned
        )
    return right


@lowers("ormqr")
def _ormqr(
    ctx: Context, self: Array, input2: Array, input3: Array, left: bool = True, transpose: bool = False
) -> Array:
    """input3 times the whole orthogonal matrix whose reflectors are the columns of self."""
    rows, count = self.shape[-2], input2.shape[-1]
    square = jnp.zeros((*self.shape[:-2], rows, rows), self.dtype).at[..., :count].set(self[..., :count])
    padded = jnp.zeros((*input2.shape[:-1], rows), self.dtype).at[..., :count].set(input2)
    q = lax.linalg.householder_product(square, padded)
    q = jnp.conj(jnp.swapaxes(q, -1, -2)) if transpose else q
    return matmul(q, input3) if left else matmul(input3, q)

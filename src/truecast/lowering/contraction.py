"""Contractions: products summed along a shared axis. How the products are formed is products.py's affair.

PyTorch on the CPU dispatches linear as addmm (2-d, bias) or mm, matmul and einsum as mm, bmm, mv or dot, and
their backwards as the same; cdist and Bilinear have kernels of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context, is_number
from truecast.lowering.registry import lowers, register

_MATRIX = (((1,), (0,)), ((), ()))
_BATCHED = (((2,), (1,)), ((0,), (0,)))


def _matmul(ctx: Context, a: Array, b: Array) -> Array:
    """a @ b of two matrices, a matrix and a vector, or two stacks of matrices, in `accumulate`."""
    contract, batch = _BATCHED if a.ndim == 3 else (((a.ndim - 1,), (0,)), ((), ()))
    return ctx.dot(a, b, contract, batch)


def _plus(ctx: Context, product: Array, addend: Array, beta: Any, alpha: Any) -> Array:
    """beta * addend + alpha * product in `accumulate`. As in PyTorch, beta = 0 ignores the addend's NaNs."""
    if not is_number(alpha, 1):
        product = product * ctx.number(alpha, product)
    if is_number(beta, 0):
        return product
    addend = jnp.broadcast_to(ctx.accumulated(addend), product.shape)
    return product + (addend if is_number(beta, 1) else addend * ctx.number(beta, product))


register("mm mv bmm", lambda ctx, self, mat2=None, vec=None, **_: _matmul(ctx, self, mat2 if vec is None else vec))
register("dot", lambda ctx, self, tensor: _matmul(ctx, self, tensor))
register("vdot", lambda ctx, self, other: _matmul(ctx, jnp.conj(self), other))


@lowers("_int_mm")
def _int_mm(ctx: Context, self: Array, mat2: Array) -> Array:
    # int8 products summed in int32: the one contraction whose result is wider than its operands.
    return lax.dot_general(self, mat2, _MATRIX, preferred_element_type=ctx.dtype)


@lowers("addmm")
def _addmm(ctx: Context, self: Array, mat1: Array, mat2: Array, beta: Any = 1, alpha: Any = 1, **_: Any) -> Array:
    return _plus(ctx, _matmul(ctx, mat1, mat2), self, beta, alpha)


@lowers("addmv")
def _addmv(ctx: Context, self: Array, mat: Array, vec: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    return _plus(ctx, _matmul(ctx, mat, vec), self, beta, alpha)


@lowers("baddbmm")
def _baddbmm(ctx: Context, self: Array, batch1: Array, batch2: Array, beta: Any = 1, alpha: Any = 1, **_: Any) -> Array:
    return _plus(ctx, _matmul(ctx, batch1, batch2), self, beta, alpha)


@lowers("addbmm")
def _addbmm(ctx: Context, self: Array, batch1: Array, batch2: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    return _plus(ctx, ctx.dot(batch1, batch2, ((0, 2), (0, 1))), self, beta, alpha)


@lowers("addr")
def _addr(ctx: Context, self: Array, vec1: Array, vec2: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    if ctx.first.dtype.category == "bool":
        outer = vec1[:, None] & vec2[None, :]
        return outer if is_number(beta, 0) or beta is False else outer | jnp.broadcast_to(self, outer.shape)
    return _plus(ctx, ctx.accumulated(vec1)[:, None] * ctx.accumulated(vec2)[None, :], self, beta, alpha)


@lowers("linear")
def _linear(ctx: Context, input: Array, weight: Array, bias: Array | None = None) -> Array:
    product = ctx.dot(input, weight, ((input.ndim - 1,), (weight.ndim - 1,)))
    return product if bias is None else product + ctx.accumulated(bias)


@lowers("linear_backward")
def _linear_backward(
    ctx: Context, self: Array, grad_output: Array, weight: Array, output_mask: Sequence[bool]
) -> tuple[Array | None, ...]:
    leading = tuple(range(grad_output.ndim - 1))
    return (
        ctx.dot(grad_output, weight, ((grad_output.ndim - 1,), (0,))) if ctx.wanted[0] else None,
        ctx.dot(grad_output, self, (leading, leading)) if ctx.wanted[1] else None,
        ctx.sum(grad_output, leading) if ctx.wanted[2] else None,
    )


@lowers("_trilinear")
def _trilinear(
    ctx: Context,
    i1: Array,
    i2: Array,
    i3: Array,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Array:
    """sum over `sumdim` of i1 * i2 * i3, each first unsqueezed at its own `expand` dims."""
    rank = i1.ndim + len(expand1)
    labels = [tuple(d for d in range(rank) if d not in expand) for expand in (expand1, expand2, expand3)]
    kept = tuple(d for d in range(rank) if d not in sumdim)
    needed_later = {*labels[2], *kept}
    pair, pair_labels = _contract(ctx, i1, labels[0], i2, labels[1], needed_later)
    # The first product is an operand of the second one: in the compute dtype, as PyTorch's own bmm leaves it.
    total, total_labels = _contract(ctx, ctx.computed(pair), pair_labels, i3, labels[2], set(kept))
    return lax.transpose(total, [total_labels.index(d) for d in kept])


def _contract(
    ctx: Context, a: Array, a_labels: Sequence[int], b: Array, b_labels: Sequence[int], kept: set[int]
) -> tuple[Array, tuple[int, ...]]:
    """The product of a and b summed over every label outside `kept`, and the labels of its dims."""
    a, a_labels = _sum_out(ctx, a, a_labels, {*b_labels, *kept})
    b, b_labels = _sum_out(ctx, b, b_labels, {*a_labels, *kept})
    shared = [d for d in a_labels if d in b_labels]
    batch = [d for d in shared if d in kept]
    summed = [d for d in shared if d not in kept]

    def axes(labels: Sequence[int], which: Sequence[int]) -> list[int]:
        return [labels.index(d) for d in which]

    product = ctx.dot(
        a, b, (axes(a_labels, summed), axes(b_labels, summed)), (axes(a_labels, batch), axes(b_labels, batch))
    )
    free = [d for labels in (a_labels, b_labels) for d in labels if d not in shared]
    return product, (*batch, *free)


def _sum_out(ctx: Context, x: Array, labels: Sequence[int], needed: set[int]) -> tuple[Array, tuple[int, ...]]:
    axes = [axis for axis, d in enumerate(labels) if d not in needed]
    return (ctx.sum(x, axes) if axes else x), tuple(d for d in labels if d in needed)

"""Scaled dot-product attention in its fused forms, forward and backward.

On the CPU, F.scaled_dot_product_attention dispatches _scaled_dot_product_flash_attention_for_cpu for 4-d operands
without dropout and without a mask that needs a gradient; every other case is a composite of bmm, _safe_softmax
and bmm, and needs no rule here. Devices outside the tree dispatch _scaled_dot_product_fused_attention_overrideable.

Both products follow laws N4 and N5; scores and softmax stay in the accumulate dtype between them, the weights are
rounded to the compute dtype as operands of the second product. `logsumexp` is natural and taken over the scaled,
masked scores: what the backward needs to recompute the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers

# q, k, v as [batch, key heads, query heads per key head, length, features]; k and v without the third dim.
_QK = (((4,), (3,)), ((0, 1), (0, 1)))  # -> [batch, heads, group, queries, keys]
_PV = (((4,), (2,)), ((0, 1), (0, 1)))  # -> [batch, heads, group, queries, features]


def _grouped(x: Array, key_heads: int) -> Array:
    """[batch, heads, ...] -> [batch, key heads, heads per key head, ...]: grouped-query attention."""
    return x.reshape(x.shape[0], key_heads, x.shape[1] // key_heads, *x.shape[2:])


def _ungrouped(x: Array) -> Array:
    return x.reshape(x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])


def _scores(ctx: Context, query: Array, key: Array, mask: Array | None, is_causal: bool, scale: float | None) -> Array:
    """Scaled, masked scores [batch, key heads, group, queries, keys], in `accumulate`."""
    heads = key.shape[1]
    scores = ctx.dot(_grouped(query, heads), key, *_QK)
    scores = scores * ctx.constant(_scale(query, scale), scores)
    minus_infinity = ctx.constant(-math.inf, scores)
    if mask is not None:
        target = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        mask = _grouped(jnp.broadcast_to(mask, target), heads)
        if mask.dtype == np.bool_:
            scores = jnp.where(mask, scores, minus_infinity)
        else:
            scores = scores + ctx.accumulated(mask)
    if is_causal:
        below = lax.broadcasted_iota("int32", scores.shape, 3) >= lax.broadcasted_iota("int32", scores.shape, 4)
        scores = jnp.where(below, scores, minus_infinity)
    return scores


def _scale(query: Array, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def _attend(
    ctx: Context, query: Array, key: Array, value: Array, mask: Array | None, is_causal: bool, scale: float | None
) -> tuple[Array, Array]:
    """The output and logsumexp [batch, heads, queries], both in `accumulate`.

    A query whose every key is masked has output 0 and logsumexp 0, as in eager: its weights exp(-inf - 0) are 0.
    """
    scores = _scores(ctx, query, key, mask, is_causal, scale)
    top = jnp.max(scores, axis=4, keepdims=True)
    masked = top == -math.inf
    weights = lax.exp(scores - jnp.where(masked, ctx.fill(0, top), top))
    total = ctx.sum(weights, (4,), keepdims=True)
    weighted = ctx.dot(ctx.computed(weights), value, *_PV)
    output = weighted / jnp.where(masked, ctx.fill(1, total), total)
    logsumexp = jnp.where(masked, ctx.fill(0, top), top + lax.log(total))
    return _ungrouped(output), _ungrouped(logsumexp[..., 0])


def _attend_backward(
    ctx: Context,
    grad: Array,
    query: Array,
    key: Array,
    value: Array,
    output: Array,
    logsumexp: Array,
    mask: Array | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[Array, Array, Array, Array]:
    """Gradients of query, key and value, and that of the scores [batch, heads, queries, keys]; in `accumulate`."""
    heads = key.shape[1]
    scores = _scores(ctx, query, key, mask, is_causal, scale)
    weights = lax.exp(scores - _grouped(ctx.accumulated(logsumexp), heads)[..., None])
    upstream = _grouped(grad, heads)
    # sum over keys of weight * grad_weight is sum over features of grad * output: no second pass over the keys.
    along = ctx.sum(ctx.accumulated(upstream) * ctx.accumulated(_grouped(output, heads)), (4,), keepdims=True)
    grad_weights = ctx.dot(upstream, value, *_QK)
    grad_scores = weights * (grad_weights - along)
    factor = ctx.constant(_scale(query, scale), grad_scores)
    scaled = ctx.computed(grad_scores * factor)
    over_queries = ((2, 3), (2, 3)), ((0, 1), (0, 1))  # every query of the group adds to its key head
    return (
        _ungrouped(ctx.dot(scaled, key, *_PV)),
        ctx.dot(scaled, _grouped(query, heads), *over_queries),
        ctx.dot(ctx.computed(weights), upstream, *over_queries),
        _ungrouped(grad_scores),
    )


def _no_dropout(ctx: Context, probability: float) -> None:
    if probability:
        ctx.unsupported(
            f"with dropout_p={probability}",
            help="attention with dropout is lowered from its composite form: "
            "torch.nn.attention.sdpa_kernel(SDPBackend.MATH)",
        )


@lowers("_scaled_dot_product_flash_attention_for_cpu")
def _flash_for_cpu(
    ctx: Context,
    query: Array,
    key: Array,
    value: Array,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, ...]:
    _no_dropout(ctx, dropout_p)
    return _attend(ctx, query, key, value, attn_mask, is_causal, scale)


@lowers("_scaled_dot_product_flash_attention_for_cpu_backward")
def _flash_for_cpu_backward(
    ctx: Context,
    grad_out: Array,
    query: Array,
    key: Array,
    value: Array,
    out: Array,
    logsumexp: Array,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, ...]:
    _no_dropout(ctx, dropout_p)
    return _attend_backward(ctx, grad_out, query, key, value, out, logsumexp, attn_mask, is_causal, scale)[:3]


@lowers("_scaled_dot_product_fused_attention_overrideable")
def _overrideable(
    ctx: Context,
    query: Array,
    key: Array,
    value: Array,
    attn_bias: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    scale: float | None = None,
) -> tuple[Array | None, ...]:
    """Output, logsumexp, and what only a kernel with its own dropout and ragged batches fills: zeros here."""
    _no_dropout(ctx, dropout_p)
    rest = [None if v is None else lax.full(v.shape, 0, ctx.held(v)) for v in ctx.outputs[2:]]
    return *_attend(ctx, query, key, value, attn_bias, is_causal, scale), *rest


@lowers("_scaled_dot_product_fused_attention_overrideable_backward")
def _overrideable_backward(
    ctx: Context,
    grad_out: Array,
    query: Array,
    key: Array,
    value: Array,
    attn_bias: Array | None,
    grad_input_mask: Sequence[bool],
    out: Array,
    logsumexp: Array,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: Any,
    max_k: Any,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Any,
    philox_offset: Any,
    scale: float | None = None,
) -> tuple[Array | None, ...]:
    _no_dropout(ctx, dropout_p)
    *grads, grad_scores = _attend_backward(
        ctx, grad_out, query, key, value, out, logsumexp, attn_bias, is_causal, scale
    )
    grad_bias = None
    if attn_bias is not None and ctx.wanted[3]:
        grad_bias = _summed_to(ctx, grad_scores, attn_bias.shape)
    return *grads, grad_bias


def _summed_to(ctx: Context, x: Array, shape: Sequence[int]) -> Array:
    """x summed over the dims along which `shape` was broadcast to it."""
    padded = (1,) * (x.ndim - len(shape)) + tuple(shape)
    axes = [axis for axis, (extent, small) in enumerate(zip(x.shape, padded, strict=True)) if small != extent]
    return ctx.sum(x, axes).reshape(shape)

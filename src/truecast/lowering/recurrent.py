"""The LSTM layer that PyTorch dispatches on the CPU, with its backward. GRU, RNN and the cells dispatch addmm and
elementwise operations instead, one time step after the other, and need no rule here.

Gates stand in PyTorch's order: input, forget, cell, output. The products of a step follow laws N4 and N5; gates and
cell state stay in the accumulate dtype, the hidden state is rounded to the compute dtype as an operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers

_LSTM = 2


def _layer(
    ctx: Context,
    input: Array,
    to_gates: Array,
    hidden_to_gates: Array,
    bias: Array | None,
    hidden: Array,
    cell: Array,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    """input [time, batch, features] -> outputs [time, batch, hidden], the last hidden and cell state."""
    projected = ctx.dot(input, to_gates, ((2,), (1,)))
    if bias is not None:
        projected = projected + ctx.accumulated(bias)

    def step(state: tuple[Array, Array], gates: Array) -> tuple[tuple[Array, Array], Array]:
        h, c = state
        gates = gates + ctx.dot(lax.convert_element_type(h, input.dtype), hidden_to_gates, ((1,), (1,)))
        i, f, g, o = jnp.split(gates, 4, axis=1)
        c = lax.logistic(f) * c + lax.logistic(i) * lax.tanh(g)
        h = lax.logistic(o) * lax.tanh(c)
        return (h, c), h

    start = ctx.accumulated(hidden), ctx.accumulated(cell)
    (hidden, cell), outputs = lax.scan(step, start, projected, reverse=reverse)
    return outputs, hidden, cell


def _only_lstm(ctx: Context, mode: int, batch_sizes: Sequence[int]) -> None:
    if mode != _LSTM:
        ctx.unsupported(f"with mode={mode}", help="only the LSTM (mode 2) is dispatched this way on the CPU")
    if batch_sizes:
        ctx.unsupported("of a packed sequence", help="pad the sequences to one length")


@lowers("mkldnn_rnn_layer")
def _forward(
    ctx: Context,
    input: Array,
    weight0: Array,
    weight1: Array,
    weight2: Array,
    weight3: Array,
    hx_: Array,
    cx_: Array,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> tuple[Array | None, ...]:
    """Outputs, last states, and the workspace that only eager's kernel uses: zeros here."""
    _only_lstm(ctx, mode, batch_sizes)
    bias = ctx.accumulated(weight2) + ctx.accumulated(weight3) if has_biases else None
    workspace = ctx.outputs[3]
    return (
        *_layer(ctx, input, weight0, weight1, bias, hx_, cx_, reverse),
        None if workspace is None else lax.full(workspace.shape, 0, "uint8"),
    )


@lowers("mkldnn_rnn_layer_backward")
def _backward(
    ctx: Context,
    input: Array,
    weight1: Array,
    weight2: Array,
    weight3: Array,
    weight4: Array,
    hx_: Array,
    cx_tmp: Array,
    output: Array,
    hy_: Array,
    cy_: Array,
    grad_output: Array | None,
    grad_hy: Array | None,
    grad_cy: Array | None,
    reverse: bool,
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    train: bool,
    bidirectional: bool,
    batch_sizes: Sequence[int],
    batch_first: bool,
    workspace: Any,
) -> tuple[Array | None, ...]:
    """jax's derivative of the forward, which it computes again, all of it in the accumulate dtype."""
    _only_lstm(ctx, mode, batch_sizes)
    bias = ctx.accumulated(weight3) + ctx.accumulated(weight4) if has_biases else None

    def layer(x: Array, w: Array, u: Array, b: Array | None, h: Array, c: Array) -> tuple[Array, Array, Array]:
        return _layer(ctx, x, w, u, b, h, c, reverse)

    operands = [ctx.accumulated(t) for t in (input, weight1, weight2)]
    results, derivative = jax.vjp(layer, *operands, bias, ctx.accumulated(hx_), ctx.accumulated(cx_tmp))
    upstream = tuple(
        jnp.zeros_like(result) if grad is None else ctx.accumulated(grad)
        for result, grad in zip(results, (grad_output, grad_hy, grad_cy), strict=True)
    )
    grad_x, grad_w, grad_u, grad_bias, grad_h, grad_c = derivative(upstream)
    if grad_bias is None:
        grad_bias = lax.full((weight1.shape[0],), 0, grad_w.dtype)
    return grad_x, grad_w, grad_u, grad_bias, grad_bias, grad_h, grad_c

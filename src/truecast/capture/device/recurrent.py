"""The fused LSTM and GRU cells that PyTorch takes on every device but the CPU, written out in other operations.

Gates in PyTorch's order: input, forget, cell, output for an LSTM; reset, update, new for a GRU. The workspace is what
the backward needs: the gates after their activations, for a GRU the state and its part of the new gate as well.
As in PyTorch's kernels a cell of a 16-bit dtype is computed in float32, and each result rounded once. Rows are
packed here too.
"""

from __future__ import annotations

from typing import Any

import torch

from truecast import dtypes
from truecast.capture import torch_seam

Tensors = tuple[torch.Tensor | None, ...]


def lstm_cell(gates: Any, hidden_gates: Any, cx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Tensors:
    """(hy, cy, workspace)"""
    summed = _with_bias(gates, input_bias) + _with_bias(hidden_gates, hidden_bias)
    i, f, g, o = summed.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * _wide(cx) + i * g
    return _as(gates, o * cy.tanh(), cy, torch.cat([i, f, g, o], 1))


def lstm_cell_backward(grad_hy: Any, grad_cy: Any, cx: Any, cy: Any, workspace: Any, has_bias: bool) -> Tensors:
    """(gradient of the gates, of cx, of the bias)"""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    i, f, g, o = _wide(workspace).chunk(4, 1)
    tanh = _wide(cy).tanh()
    through = torch.zeros_like(tanh) if grad_hy is None else _wide(grad_hy) * o * (1 - tanh * tanh)
    grad_c = through if grad_cy is None else through + _wide(grad_cy)
    grad_o = torch.zeros_like(tanh) if grad_hy is None else _wide(grad_hy) * tanh * o * (1 - o)
    parts = [grad_c * g * i * (1 - i), grad_c * _wide(cx) * f * (1 - f), grad_c * i * (1 - g * g), grad_o]
    grad_gates, grad_cx = _as(workspace, torch.cat(parts, 1), grad_c * f)
    assert grad_gates is not None
    return grad_gates, grad_cx, grad_gates.sum(0) if has_bias else None


def gru_cell(gates: Any, hidden_gates: Any, hx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Tensors:
    """(hy, workspace)"""
    input_r, input_z, input_n = _with_bias(gates, input_bias).chunk(3, 1)
    hidden_r, hidden_z, hidden_n = _with_bias(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (input_r + hidden_r).sigmoid(), (input_z + hidden_z).sigmoid()
    n = (input_n + r * hidden_n).tanh()
    before = _wide(hx)
    return _as(gates, n + z * (before - n), torch.cat([r, z, n, before, hidden_n], 1))


def gru_cell_backward(grad_hy: Any, workspace: Any, has_bias: bool) -> Tensors:
    """(gradient of the input gates, of the hidden gates, of hx, of the input bias, of the hidden bias)"""
    r, z, n, hx, hidden_n = _wide(workspace).chunk(5, 1)
    grad = _wide(grad_hy)
    grad_n = grad * (1 - z) * (1 - n * n)
    grad_z = grad * (hx - n) * z * (1 - z)
    grad_r = grad_n * hidden_n * r * (1 - r)
    gates, hidden_gates, grad_hx = _as(
        workspace, torch.cat([grad_r, grad_z, grad_n], 1), torch.cat([grad_r, grad_z, grad_n * r], 1), grad * z
    )
    assert gates is not None and hidden_gates is not None
    biases = (gates.sum(0), hidden_gates.sum(0)) if has_bias else (None, None)
    return gates, hidden_gates, grad_hx, *biases


def _wide(t: torch.Tensor) -> torch.Tensor:
    """float32 for a 16-bit dtype."""
    return t.float() if t.dtype in (torch.bfloat16, torch.float16) else t


def _as(like: torch.Tensor, *results: torch.Tensor) -> Tensors:
    return tuple([r if r.dtype is like.dtype else r.to(like.dtype) for r in results])


def _with_bias(gates: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return _wide(gates) if bias is None else _wide(gates) + _wide(bias)


def pack_padded_sequence(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
    """Packed rows on the device, and their batch sizes on the CPU, as PyTorch has them on every device: it counts with
    them. Which row comes from where, PyTorch says itself, of the rows' numbers."""
    if lengths.device.type != "cpu":
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device} "
            f"{dtypes.scalar_name(dtypes.of(lengths.dtype))} tensor"
        )
    steps = input.transpose(0, 1) if batch_first else input
    rows = steps.shape[0] * steps.shape[1]
    with torch_seam.without_modes():
        numbers = torch.arange(rows, device="cpu").view(*steps.shape[:2], 1)
        order, batch_sizes = torch.ops.aten._pack_padded_sequence.default(numbers, lengths, False)
    flat = steps.reshape(rows, *steps.shape[2:])
    return flat.index_select(0, order.view(-1).to(input.device)), batch_sizes

"""The fused LSTM and GRU cells that PyTorch takes on every device but the CPU, written out in other operations.

Gates in PyTorch's order: input, forget, cell, output for an LSTM; reset, update, new for a GRU. The workspace is what
the backward needs: the gates after their activations, for a GRU the state and its part of the new gate as well.
"""

from __future__ import annotations

from typing import Any

import torch

Tensors = tuple[torch.Tensor | None, ...]


def lstm_cell(gates: Any, hidden_gates: Any, cx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Tensors:
    """(hy, cy, workspace)"""
    gates = _with_bias(gates, input_bias) + _with_bias(hidden_gates, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(grad_hy: Any, grad_cy: Any, cx: Any, cy: Any, workspace: Any, has_bias: bool) -> Tensors:
    """(gradient of the gates, of cx, of the bias)"""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    i, f, g, o = workspace.chunk(4, 1)
    tanh = cy.tanh()
    through = torch.zeros_like(cy) if grad_hy is None else grad_hy * o * (1 - tanh * tanh)
    grad_c = through if grad_cy is None else through + grad_cy
    grad_o = torch.zeros_like(cy) if grad_hy is None else grad_hy * tanh * o * (1 - o)
    parts = [grad_c * g * i * (1 - i), grad_c * cx * f * (1 - f), grad_c * i * (1 - g * g), grad_o]
    grad_gates = torch.cat(parts, 1)
    return grad_gates, grad_c * f, grad_gates.sum(0) if has_bias else None


def gru_cell(gates: Any, hidden_gates: Any, hx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Tensors:
    """(hy, workspace)"""
    input_r, input_z, input_n = _with_bias(gates, input_bias).chunk(3, 1)
    hidden_r, hidden_z, hidden_n = _with_bias(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (input_r + hidden_r).sigmoid(), (input_z + hidden_z).sigmoid()
    n = (input_n + r * hidden_n).tanh()
    return n + z * (hx - n), torch.cat([r, z, n, hx, hidden_n], 1)


def gru_cell_backward(grad_hy: Any, workspace: Any, has_bias: bool) -> Tensors:
    """(gradient of the input gates, of the hidden gates, of hx, of the input bias, of the hidden bias)"""
    r, z, n, hx, hidden_n = workspace.chunk(5, 1)
    grad_n = grad_hy * (1 - z) * (1 - n * n)
    grad_z = grad_hy * (hx - n) * z * (1 - z)
    grad_r = grad_n * hidden_n * r * (1 - r)
    gates = torch.cat([grad_r, grad_z, grad_n], 1)
    hidden_gates = torch.cat([grad_r, grad_z, grad_n * r], 1)
    return (
        gates,
        hidden_gates,
        grad_hy * z,
        gates.sum(0) if has_bias else None,
        hidden_gates.sum(0) if has_bias else None,
    )


def _with_bias(gates: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return gates if bias is None else gates + bias

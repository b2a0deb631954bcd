"""glu and its backward beside PyTorch eager: pairs along a dim, so not among the broadcast elementwise rules."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.twin import compare, run, single_node_graph

_ULPS = {torch.float32: 8, torch.float64: 8, torch.bfloat16: 1, torch.float16: 1}


def _input(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 4).to(dtype)


@pytest.mark.parametrize("dtype", _ULPS, ids=str)
@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_glu(dtype: torch.dtype, dim: int) -> None:
    compare("aten.glu.default", _input(dtype, 4, 6, 8), dim, ulps=_ULPS[dtype])


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_glu_backward(dtype: torch.dtype, dim: int) -> None:
    x = _input(dtype, 4, 6, 8)
    compare("aten.glu_backward.default", _input(dtype, *torch.ops.aten.glu(x, dim).shape), x, dim, ulps=16)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_glu_backward_in_16_bits_rounds_once(dtype: torch.dtype) -> None:
    """Eager stores the sigmoid in 16 bits and subtracts it from 1; ours is float32's result, rounded once."""
    grad, x = _input(dtype, 4, 4), _input(dtype, 4, 8)
    graph, tensors, _ = single_node_graph("aten.glu_backward.default", grad, x, -1)
    wide = torch.ops.aten.glu_backward(grad.double(), x.double(), -1).numpy()
    (got,) = run(graph, tensors)
    half_an_ulp = np.abs(wide) * (torch.finfo(dtype).eps / 2) * 1.001
    assert (np.abs(got.astype(np.float64) - wide) <= half_an_ulp + torch.finfo(dtype).smallest_normal).all()

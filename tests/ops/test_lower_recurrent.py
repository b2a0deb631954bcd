"""The LSTM layer against eager: 64 ulps in float32 over 5 steps (each adds the roundings of its gates); bfloat16
8 ulps, since eager's kernel rounds the hidden state and the outputs at every step."""

import pytest
import torch

from tests.twin import Call, call, compare_all


def draw(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


@pytest.mark.parametrize(("dtype", "ulps"), [(torch.float32, 64), (torch.bfloat16, 8)])
def test_lstm_layer(dtype: torch.dtype, ulps: float) -> None:
    x, h, c = draw(dtype, 5, 2, 8), draw(dtype, 2, 4), draw(dtype, 2, 4, seed=1)
    w, u, b = draw(dtype, 16, 8) / 4, draw(dtype, 16, 4) / 4, draw(dtype, 16)
    calls: list[Call] = []
    for reverse, biased in ((False, True), (True, True), (False, False)):
        weights = (w, u, b, b.flip(0)) if biased else (w, u, w, u)
        forward = (x, *weights, h, c, reverse, [], 2, 4, 1, biased, False, False)
        calls.append(call("aten.mkldnn_rnn_layer.default", *forward, False, outputs=(0, 1, 2)))
        if dtype is torch.float32:
            y, hy, cy, workspace = torch.ops.aten.mkldnn_rnn_layer(*forward, True)
            grads = draw(dtype, *y.shape, seed=2), draw(dtype, 2, 4, seed=3), draw(dtype, 2, 4, seed=4)
            saved = (x, *weights, h, c, y, hy, cy, *grads, reverse, 2, 4, 1, biased, True, False, [], False, workspace)
            outputs = (0, 1, 2, 3, 4, 5, 6) if biased else (0, 1, 2, 5, 6)
            calls.append(call("aten.mkldnn_rnn_layer_backward.default", *saved, outputs=outputs))
    compare_all(calls, ulps=ulps)

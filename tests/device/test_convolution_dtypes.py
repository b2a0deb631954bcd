"""Convolutions whose operands' dtypes differ: PyTorch's error with the origin, or a cast where the policy says so."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import truecast as tc
from tests.device.beside import DEVICE

CASTS = tc.Numerics.preset("cpu").with_settings(on_mismatch="cast")
CALLS = {
    "conv1d": (F.conv1d, (2, 3, 8), (4, 3, 3), {}),
    "conv2d": (F.conv2d, (2, 4, 7, 7), (4, 2, 3, 3), {"stride": 2, "padding": 1, "groups": 2}),
    "conv3d": (F.conv3d, (1, 2, 3, 5, 5), (4, 2, 1, 2, 2), {"stride": (1, 2, 2), "dilation": (1, 2, 2)}),
    "conv3d, one image": (F.conv3d, (2, 3, 5, 5), (4, 2, 1, 2, 2), {}),
    "conv_transpose1d": (F.conv_transpose1d, (2, 3, 8), (3, 4, 3), {}),
    "conv_transpose2d": (F.conv_transpose2d, (2, 4, 5, 5), (4, 2, 3, 3), {"stride": 2, "output_padding": 1}),
    "conv_transpose3d": (F.conv_transpose3d, (1, 2, 3, 4, 4), (2, 4, 1, 2, 2), {"groups": 2, "dilation": 2}),
}


@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("name", CALLS)
def test_n12_a_convolution_follows_its_weight(name: str, bias: bool) -> None:
    function, x_shape, w_shape, options = CALLS[name]
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randint(-3, 4, s, generator=generator).to(torch.bfloat16) for s in (x_shape, w_shape))
    channels = w_shape[0] if "transpose" not in name else w_shape[1] * options.get("groups", 1)
    b = torch.arange(channels).to(torch.bfloat16) if bias else None
    x, w = x.requires_grad_(), w.requires_grad_()
    expected = function(x, w, b, **options)
    expected.float().sum().backward()
    there = x.detach().float().to(DEVICE).requires_grad_()
    weight = w.detach().to(DEVICE).requires_grad_()
    with tc.numerics(CASTS):
        got = function(there, weight, None if b is None else b.to(DEVICE), **options)
        got.float().sum().backward()
        with torch.inference_mode():
            inferred = function(there, weight, None if b is None else b.to(DEVICE), **options)
    assert got.dtype is torch.bfloat16 and torch.equal(got.cpu(), expected.detach())
    assert torch.equal(inferred.cpu(), expected.detach())
    assert there.grad.dtype is torch.float32 and torch.equal(there.grad.cpu(), x.grad.float())
    assert torch.equal(weight.grad.cpu(), w.grad)


@pytest.mark.parametrize("name", CALLS)
def test_n12_an_error_is_pytorchs_and_names_the_line(name: str) -> None:
    function, x_shape, w_shape, options = CALLS[name]
    x, weight = torch.ones(x_shape, dtype=torch.bfloat16), torch.ones(w_shape, dtype=torch.bfloat16)
    # With a bias only the first names the same operand as eager; without, conv3d's kernel has words of its own.
    bias = torch.ones(w_shape[0], dtype=torch.bfloat16) if "transpose" not in name else None
    sigma = torch.rand([1] * len(x_shape))
    with pytest.raises(RuntimeError) as eager:
        function(x * sigma, weight, bias, **options)
    noisy = x.to(DEVICE) * sigma.to(DEVICE)
    with pytest.raises(RuntimeError) as refused:
        function(noisy, weight.to(DEVICE), None if bias is None else bias.to(DEVICE), **options)
    assert str(refused.value) == str(eager.value)
    first, origin = refused.value.__notes__
    assert first.startswith("in test_convolution_dtypes.py:")
    assert origin.endswith("    x.to(DEVICE) * sigma.to(DEVICE)")

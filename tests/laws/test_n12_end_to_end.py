"""Law N12 from program to result: PyTorch's exception with its origin, or casts that the Plan shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import truecast as tc
from truecast import dtypes
from truecast.errors import ContractError
from truecast.numerics.numerics import Numerics

LENIENT = Numerics("lenient", on_mismatch="cast")


def blend(latents: torch.Tensor, sigma: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    noisy = (1 - sigma) * latents
    return F.conv2d(noisy, weight)


def operands() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    latents = torch.randn(2, 3, 6, 6, generator=generator).bfloat16()
    return latents, torch.full((1, 1, 1, 1), 0.3), torch.randn(4, 3, 3, 3, generator=generator).bfloat16()


def test_error_is_pytorchs_with_the_line_where_it_happened() -> None:
    with pytest.raises(RuntimeError) as eager:
        blend(*operands())
    with pytest.raises(RuntimeError) as ours:
        tc.lower(blend, *operands(), numerics="cpu")
    assert (type(ours.value), str(ours.value)) == (type(eager.value), str(eager.value))
    line = blend.__code__.co_firstlineno + 2
    assert ours.value.__notes__ == [f"at {__file__}:{line}: F.conv2d(noisy, weight)"]


def test_cast_runs_and_stands_in_the_plan() -> None:
    latents, sigma, weight = operands()
    program = tc.lower(blend, latents, sigma, weight, numerics=LENIENT)
    casts = [d.casts for node, d in program.plan.pairs() if node.op == "aten.convolution.default"]
    assert casts == [(("input", dtypes.bfloat16),)]
    text = program.plan.text(100)
    assert "input to bfloat16 of aten.convolution.default" in text and "on_mismatch = cast, law N12" in text
    got = program.compile()(latents, sigma, weight)
    want = F.conv2d(((1 - sigma) * latents).bfloat16(), weight)
    assert got.dtype is torch.bfloat16
    torch.testing.assert_close(got, want)


def test_a_graph_that_was_typed_under_cast_is_refused_under_error() -> None:
    program = tc.lower(blend, *operands(), numerics=LENIENT)
    with pytest.raises(ContractError, match="should be the same"):
        tc.plan(program.plan.graph, "cpu")


def step(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Any:
    loss = F.linear(x, weight, bias).float().square().sum()
    return torch.autograd.grad(loss, (x, weight, bias))


def test_gradients_keep_the_dtypes_of_what_they_are_of() -> None:
    x = torch.randn(5, 4, requires_grad=True)
    weight = torch.randn(3, 4).bfloat16().requires_grad_()
    bias = torch.randn(3, requires_grad=True)
    got = tc.lower(step, x, weight, bias, numerics=LENIENT).compile()(x, weight, bias)

    def by_hand(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Any:
        loss = F.linear(x.bfloat16(), weight, bias.bfloat16()).float().square().sum()
        return torch.autograd.grad(loss, (x, weight, bias))

    for ours, eager in zip(got, by_hand(x, weight, bias), strict=True):
        assert ours.dtype is eager.dtype
        # Both round the same sums of at most 5 products to bfloat16, in another order: one unit in the last place.
        np.testing.assert_allclose(ours.float().numpy(), eager.float().numpy(), rtol=2**-7, atol=2**-4)


def test_the_backend_of_torch_compile_casts_too() -> None:
    x, weight = torch.randn(5, 4), torch.randn(3, 4).bfloat16()
    torch._dynamo.reset()
    got = torch.compile(F.linear, backend="truecast", options={"numerics": LENIENT})(x, weight)
    assert got.dtype is torch.bfloat16
    torch.testing.assert_close(got, F.linear(x.bfloat16(), weight))


def test_what_capture_replaces_is_cast_inside() -> None:
    bias, x, weight = torch.randn(4), torch.randn(3, 5), torch.randn(5, 4).bfloat16()
    program = tc.lower(torch._addmm_activation, bias, x, weight, numerics=LENIENT)
    assert [d.casts for node, d in program.plan.pairs() if node.op == "aten.addmm.default"] == [
        (("self", dtypes.bfloat16), ("mat1", dtypes.bfloat16))
    ]
    want = torch._addmm_activation(bias.bfloat16(), x.bfloat16(), weight)
    torch.testing.assert_close(program.compile()(bias, x, weight), want)

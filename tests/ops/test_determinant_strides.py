"""Determinants of matrices that are not contiguous: eager picks its factor, and the gradient, by the strides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import truecast as tc


def forms() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    batch = torch.randn(2, 4, 4, generator=generator) + 2 * torch.eye(4)
    strided = torch.randn(8, 8, generator=generator)[::2, ::2]
    return {"contiguous": batch, "transposed": batch.mT, "strided": strided, "complex": (batch + 1j).mT}


@pytest.mark.parametrize("form", ("contiguous", "transposed", "strided", "complex"))
@pytest.mark.parametrize("determinant", (torch.linalg.det, lambda a: torch.linalg.slogdet(a)[1]))
def test_gradient_of_a_determinant(form: str, determinant: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def gradient(a: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(determinant(a).abs().sum(), a)[0]

    a = forms()[form].detach().requires_grad_()
    got = tc.lower(gradient, a, numerics="cpu").compile()(a)
    # A condition of about 100 times a few roundings of 2^-24.
    torch.testing.assert_close(got, gradient(a), rtol=1e-4, atol=1e-5)

"""ldexp beside PyTorch eager: its exponent is any number, and an integral operand becomes a float."""

from __future__ import annotations

import pytest
import torch

from tests.twin import compare

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("exponent", [[0, 1, 5, -3], [0.0, 1.0, 5.0, -3.5]], ids=str)
def test_ldexp(dtype: torch.dtype, exponent: list[float]) -> None:
    significand = torch.tensor([1, 3, 0, 5]).to(dtype)
    power = torch.tensor(exponent)
    if dtype is torch.float64 and power.is_floating_point():
        power = power.double()  # eager would form the power in float32
    compare("aten.ldexp.Tensor", significand, power, ulps=2)

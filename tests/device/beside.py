"""Runs a function on the device and on the CPU, and holds the results beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import truecast as tc

DEVICE = tc.device()


def equal(got: torch.Tensor, expected: torch.Tensor, tolerance: float = 0.0) -> None:
    """Device, dtype, shape, strides and contents."""
    assert got.device == DEVICE, got.device
    assert (got.dtype, got.shape, got.stride()) == (expected.dtype, expected.shape, expected.stride())
    torch.testing.assert_close(
        got.detach().cpu(), expected.detach(), rtol=tolerance, atol=tolerance, equal_nan=True, check_device=False
    )


def beside(function: Callable[..., Any], *operands: Any, tolerance: float = 0.0) -> None:
    """`function` gives the same on the device as on the CPU, and leaves the same in its arguments. An operand is a
    shape (filled with normal numbers) or a tensor."""
    generator = torch.Generator().manual_seed(0)
    here = [o if isinstance(o, torch.Tensor) else torch.randn(o, generator=generator) for o in operands]
    there = [o.to(DEVICE) for o in here]
    got, expected = function(*there), function(*here)
    if not isinstance(got, Sequence):
        got, expected = [got], [expected]
    assert len(got) == len(expected)
    for a, b in zip((*got, *there), (*expected, *here), strict=True):
        if isinstance(b, torch.Tensor):
            equal(a, b, tolerance)
        else:
            assert a == b


def raised(function: Callable[[Any], Any], device: Any) -> tuple[type, str]:
    try:
        function(device)
    except Exception as error:
        return type(error), str(error).split("\n")[0]
    return type(None), ""

"""Convolutions against eager, forward and backward. The float32 bound is 16 ulps of the mean magnitude: sums of up to
a few hundred products in another order. bfloat16 rounds once from float32 on both sides: 2 ulps."""

from typing import Any

import pytest
import torch

from tests.twin import Call, call, compare_all

# name: (input, weight, stride, padding, dilation, transposed, output_padding, groups)
Window = tuple[tuple[int, ...], tuple[int, ...], list[int], list[int], list[int], bool, list[int], int]
WINDOWS: dict[str, Window] = {
    "1d": ((2, 4, 17), (6, 4, 3), [1], [1], [1], False, [0], 1),
    "1d strided, dilated": ((2, 4, 17), (6, 4, 3), [2], [2], [2], False, [0], 1),
    "2d": ((2, 4, 9, 8), (6, 4, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    "2d, stride leaves a rest": ((2, 4, 10, 9), (6, 4, 3, 2), [2, 3], [0, 1], [1, 1], False, [0, 0], 1),
    "2d groups": ((2, 4, 9, 8), (6, 2, 3, 3), [2, 1], [1, 0], [1, 2], False, [0, 0], 2),
    "2d depthwise": ((2, 4, 9, 8), (8, 1, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 4),
    "1d depthwise, strided": ((2, 4, 11), (4, 1, 4), [2], [3], [1], False, [0], 4),
    "2d large window": ((2, 3, 16, 16), (4, 3, 7, 7), [2, 2], [3, 3], [1, 1], False, [0, 0], 1),
    "2d patch": ((2, 3, 9, 8), (5, 3, 2, 2), [2, 2], [0, 0], [1, 1], False, [0, 0], 1),
    "2d pointwise": ((2, 4, 5, 6), (6, 4, 1, 1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    "3d": ((1, 3, 5, 6, 7), (4, 3, 3, 2, 3), [1, 2, 1], [1, 0, 1], [1, 1, 1], False, [0, 0, 0], 1),
    "3d patch": ((1, 4, 3, 6, 8), (8, 4, 1, 2, 2), [1, 2, 2], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1),
    "1d transposed": ((2, 4, 7), (4, 3, 3), [2], [1], [1], True, [1], 1),
    "2d transposed": ((2, 4, 5, 6), (4, 3, 3, 3), [2, 2], [1, 1], [1, 1], True, [1, 0], 1),
    "2d transposed groups": ((2, 4, 5, 6), (4, 3, 3, 2), [2, 1], [1, 0], [2, 1], True, [0, 0], 2),
    "2d transposed patch": ((2, 4, 5, 6), (4, 3, 2, 2), [2, 2], [0, 0], [1, 1], True, [1, 0], 1),
    "2d transposed, padded by a stride": ((1, 4, 5, 6), (4, 3, 3, 2), [1, 1], [0, 1], [2, 2], True, [1, 1], 1),
    "3d transposed": ((1, 4, 3, 4, 5), (4, 2, 2, 3, 3), [2, 1, 2], [0, 1, 1], [1, 1, 1], True, [1, 0, 1], 1),
}


def draw(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def forward(name: str, dtype: torch.dtype, biased: bool, **bound: Any) -> Call:
    x_shape, w_shape, *rest = WINDOWS[name]
    x, w = draw(dtype, *x_shape), draw(dtype, *w_shape)
    outputs = w_shape[1] * rest[-1] if rest[3] else w_shape[0]
    return call("aten.convolution.default", x, w, draw(dtype, outputs) if biased else None, *rest, **bound)


def backward(name: str, dtype: torch.dtype, mask: list[bool], **bound: Any) -> Call:
    x, w, bias, *rest = forward(name, dtype, True).args
    grad = draw(dtype, *torch.ops.aten.convolution(x, w, bias, *rest).shape)
    return call("aten.convolution_backward.default", grad, x, w, list(bias.shape), *rest, mask, **bound)


@pytest.mark.parametrize(("dtype", "ulps"), [(torch.float32, 16), (torch.bfloat16, 2)])
def test_forward(dtype: torch.dtype, ulps: float) -> None:
    compare_all([forward(n, dtype, biased=i % 2 == 0) for i, n in enumerate(WINDOWS)], ulps=ulps)


@pytest.mark.parametrize(("dtype", "ulps"), [(torch.float32, 16), (torch.bfloat16, 2)])
def test_backward(dtype: torch.dtype, ulps: float) -> None:
    names = list(WINDOWS)[:: 1 if dtype is torch.float32 else 3]  # a rule has one form for all dtypes
    compare_all([backward(n, dtype, [True, True, True]) for n in names], ulps=ulps)


def test_backward_of_any_output_mask() -> None:
    masks = ([True, False, False], [False, True, False], [False, False, True], [False, True, True])
    compare_all([backward("2d groups", torch.float32, mask) for mask in masks], ulps=16)


def test_integers() -> None:
    compare_all([forward(n, torch.int64, biased=True) for n in ("1d", "2d groups", "2d patch")])


# Eager counts no output channels where there are no input channels.
NOTHING: dict[str, Window] = {
    "1d, no input channels": ((1, 0, 4), (2, 0, 2), [1], [0], [1], False, [0], 1),
    "2d, no input channels": ((1, 0, 4, 4), (2, 0, 2, 2), [1, 2], [0, 1], [1, 1], False, [0, 0], 1),
    "3d, groups of no channels": ((1, 0, 4, 4, 4), (2, 0, 2, 2, 2), [1] * 3, [0] * 3, [1] * 3, False, [0] * 3, 2),
    "1d, no batch": ((0, 3, 4), (2, 3, 2), [1], [0], [1], False, [0], 1),
    "2d patch, no batch": ((0, 3, 4, 4), (2, 3, 2, 2), [2, 2], [0, 0], [1, 1], False, [0, 0], 1),
    "2d transposed, no batch": ((0, 2, 4, 4), (2, 3, 2, 2), [1, 1], [0, 0], [1, 1], True, [0, 0], 1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("biased", [False, True])
def test_of_nothing(dtype: torch.dtype, biased: bool) -> None:
    calls = []
    for x_shape, w_shape, *rest in NOTHING.values():
        x, w = torch.ones(x_shape, dtype=dtype), torch.ones(w_shape, dtype=dtype)
        bias = torch.ones(w_shape[1 if rest[3] else 0], dtype=dtype)
        arguments = (x, w, bias if biased else None, *rest)
        grad = torch.ones_like(torch.ops.aten.convolution(*arguments))
        backward = (grad, x, w, list(bias.shape), *rest, [True] * 3)
        calls += [call("aten.convolution.default", *arguments), call("aten.convolution_backward.default", *backward)]
    compare_all(calls, ulps=0)

"""Pooling against eager, forward and backward.

Maxima are exact. Averages of up to 27 elements: 8 ulps in float32; bfloat16 sums in float32 on both sides: 2 ulps.
"""

import math

import pytest
import torch

from tests.twin import Call, call, compare_all

DTYPES = ((torch.float32, 8), (torch.bfloat16, 2))


def draw(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


@pytest.mark.parametrize(("dtype", "ulps"), DTYPES)
def test_max_pool(dtype: torch.dtype, ulps: float) -> None:
    x = (draw(dtype, 2, 3, 9, 8) * 2).round()  # with ties
    special = x.clone()
    special[0, 0, 2, 1:5] = math.nan
    special[0, 1] = -math.inf
    volume = draw(dtype, 2, 5, 6, 7)
    calls: list[Call] = []
    for pooled, rank, windows in (
        (x, 2, ([3, 2], [2, 2], [1, 0], [1, 1], False)),
        (x, 2, ([2, 2], [], [0, 0], [1, 1], True)),
        (x, 2, ([3], [2], [1], [2], True)),
        (special, 2, ([3, 3], [1, 2], [1, 1], [1, 1], False)),
        (x[0], 2, ([2, 2], [2, 2], [0, 0], [1, 1], False)),
        (volume, 3, ([2, 3, 2], [2, 1, 2], [1, 1, 0], [1, 1, 2], True)),
    ):
        name = f"max_pool{rank}d_with_indices"
        calls.append(call(f"aten.{name}.default", pooled, *windows, ulps=0))
        out, indices = getattr(torch.ops.aten, name)(pooled, *windows)
        grad = draw(dtype, *out.shape, seed=1)
        stride = windows[1] or windows[0]
        args = (grad, pooled, windows[0], stride, *windows[2:], indices)
        calls.append(call(f"aten.{name}_backward.default", *args))
    compare_all(calls, ulps=ulps)


@pytest.mark.parametrize(("dtype", "ulps"), DTYPES)
def test_avg_pool(dtype: torch.dtype, ulps: float) -> None:
    x, volume = draw(dtype, 2, 3, 9, 8), draw(dtype, 2, 5, 6, 7)
    calls: list[Call] = []
    for pooled, rank, windows in (
        (x, 2, ([3, 2], [2, 2], [1, 0], False, True, None)),
        (x, 2, ([3, 3], [2, 2], [1, 1], True, True, None)),
        (x, 2, ([3, 3], [2, 2], [1, 1], True, False, None)),
        (x, 2, ([2], [], [0], False, True, 5)),
        (x[0], 2, ([2, 2], [3, 3], [0, 0], False, True, None)),
        (volume, 3, ([2, 3, 2], [2, 1, 2], [1, 1, 0], True, False, None)),
    ):
        if rank == 3 and dtype is torch.bfloat16:
            continue  # eager has no such kernel on the CPU
        name = f"avg_pool{rank}d"
        calls.append(call(f"aten.{name}.default", pooled, *windows))
        out = getattr(torch.ops.aten, name)(pooled, *windows)
        calls.append(call(f"aten.{name}_backward.default", draw(dtype, *out.shape), pooled, *windows))
    compare_all(calls, ulps=ulps)


@pytest.mark.parametrize(("dtype", "ulps"), DTYPES)
def test_adaptive_pools(dtype: torch.dtype, ulps: float) -> None:
    x, volume = draw(dtype, 2, 3, 9, 8), draw(dtype, 2, 5, 6, 7)
    special = x.clone()
    special[0, 0, 2, 1:5] = math.nan
    special[1, 1, 3, 3] = math.inf
    aten = torch.ops.aten
    calls: list[Call] = []
    for pooled, size in (
        (x, [3, 4]),
        (x, [4, 5]),
        (x, [1, 1]),
        (x[0], [11, 8]),
        (special, [4, 3]),
        (volume, [2, 4, 3]),
    ):
        rank = len(size)
        average = f"_adaptive_avg_pool{rank}d"
        calls.append(call(f"aten.{average}.default", pooled, size))
        grad = draw(dtype, *getattr(aten, average)(pooled, size).shape)
        calls.append(call(f"aten.{average}_backward.default", grad, pooled))
        maximum = f"adaptive_max_pool{rank}d"
        calls.append(call(f"aten.{maximum}.default", pooled, size, ulps=0))
        indices = getattr(aten, maximum)(pooled, size)[1]
        calls.append(call(f"aten.{maximum}_backward.default", grad, pooled, indices))
    compare_all(calls, ulps=ulps)


def test_fractional_max_pool_and_max_unpool() -> None:
    x, volume = draw(torch.float32, 2, 3, 9, 8), draw(torch.float32, 2, 3, 5, 6, 7)
    aten = torch.ops.aten
    calls: list[Call] = []
    for pooled, kernel, size in ((x, [2, 3], [4, 3]), (volume, [2, 2, 3], [3, 3, 2])):
        samples = torch.rand(2, 3, len(size), generator=torch.Generator().manual_seed(0))
        name = f"fractional_max_pool{len(size)}d"
        calls.append(call(f"aten.{name}.default", pooled, kernel, size, samples, ulps=0))
        calls.append(call(f"aten.{name}.default", pooled[0], kernel, size, samples, ulps=0))
        out, indices = getattr(aten, name)(pooled, kernel, size, samples)
        calls.append(
            call(f"aten.{name}_backward.default", draw(torch.float32, *out.shape), pooled, kernel, size, indices)
        )
    out, indices = aten.max_pool2d_with_indices(x, [2, 2])
    calls.append(call("aten.max_unpool2d.default", out, indices, [9, 8], ulps=0))
    out, indices = aten.max_pool3d_with_indices(volume, [2, 2, 2])
    calls.append(call("aten.max_unpool3d.default", out, indices, [5, 6, 7], [2, 2, 2], [0, 0, 0], ulps=0))
    compare_all(calls, ulps=8)


def test_empty_batches() -> None:
    image, volume = torch.zeros(0, 2, 6, 6), torch.zeros(0, 1, 4, 5, 4)
    grad, indices = torch.zeros(0, 2, 3, 3), torch.zeros(0, 2, 3, 3, dtype=torch.int64)
    compare_all(
        [
            call("aten.fractional_max_pool3d.default", volume, [2, 2, 1], [2, 2, 2], torch.rand(0, 1, 3)),
            call("aten.adaptive_max_pool2d.default", image, [3, 3]),
            call("aten.adaptive_max_pool2d_backward.default", grad, image, indices),
            call("aten.max_unpool2d.default", grad, indices, [6, 6]),
        ]
    )

"""Resampling against eager, forward and backward. float32 16 ulps: weights are float32 on both sides, their products
are summed in another order; bfloat16 2 ulps, since eager and we compute in float32."""

from typing import Any

import pytest
import torch

from tests.twin import Call, call, compare_all

Case = tuple[str, tuple[int, ...], list[int], tuple[Any, ...]]
CASES: list[Case] = [
    ("upsample_nearest1d", (2, 3, 7), [11], (None,)),
    ("upsample_nearest1d", (2, 3, 7), [14], (2.0,)),
    ("upsample_nearest2d", (2, 3, 5, 6), [8, 9], (1.7, 1.5)),
    ("upsample_nearest2d", (2, 3, 5, 6), [3, 12], (None, None)),
    ("upsample_nearest3d", (1, 2, 3, 4, 5), [5, 3, 10], (None, None, None)),
    ("_upsample_nearest_exact2d", (2, 3, 5, 6), [8, 4], (None, None)),
    ("upsample_linear1d", (2, 3, 7), [11], (False, None)),
    ("upsample_linear1d", (2, 3, 7), [5], (True, None)),
    ("upsample_bilinear2d", (2, 3, 5, 6), [8, 9], (False, 1.7, 1.5)),
    ("upsample_bilinear2d", (2, 3, 5, 6), [10, 4], (True, None, None)),
    ("upsample_trilinear3d", (1, 2, 3, 4, 5), [5, 3, 10], (False, None, None, None)),
    ("upsample_bicubic2d", (2, 3, 5, 6), [8, 4], (False, None, None)),
    ("upsample_bicubic2d", (2, 3, 5, 6), [9, 11], (True, None, None)),
    ("_upsample_bilinear2d_aa", (2, 3, 9, 12), [4, 15], (False, None, None)),
    ("_upsample_bicubic2d_aa", (2, 3, 9, 12), [5, 7], (False, None, None)),
    ("_upsample_bicubic2d_aa", (2, 3, 9, 12), [5, 14], (True, None, None)),
    ("_upsample_lanczos2d_aa", (2, 3, 9, 12), [5, 14], (False, None, None)),
    ("_upsample_lanczos2d_aa", (2, 3, 9, 12), [4, 7], (True, None, None)),
]


def draw(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


@pytest.mark.parametrize(("dtype", "ulps"), [(torch.float32, 16), (torch.bfloat16, 2), (torch.float64, 16)])
def test_resampling(dtype: torch.dtype, ulps: float) -> None:
    calls: list[Call] = []
    for name, shape, size, rest in CASES:
        if dtype is torch.bfloat16 and name.endswith("_aa"):
            continue  # eager has no such kernel on the CPU
        calls.append(call(f"aten.{name}.default", draw(dtype, *shape), size, *rest))
        if dtype is torch.float32:
            grad = draw(dtype, *shape[:2], *size)
            calls.append(call(f"aten.{name}_backward.default", grad, size, list(shape), *rest))
    compare_all(calls, ulps=ulps)


def test_scale_factors_of_the_vec_overloads_and_nearest_of_integers() -> None:
    x = draw(torch.float32, 1, 2, 5, 6)
    compare_all(
        [
            call("aten.upsample_nearest2d.vec", x, None, [1.5, 2.0], ulps=0),
            call("aten.upsample_nearest2d.vec", x, [7, 8], None, ulps=0),
            call("aten.upsample_bilinear2d.vec", x, None, False, [1.5, 2.0]),
            call("aten.upsample_nearest2d.default", (x * 9).to(torch.uint8), [8, 9]),
        ],
        ulps=16,
    )


def test_grid_sampler_and_affine_grid() -> None:
    """Bounds: 64 ulps, since a position's rounding error is multiplied by the difference of neighbouring pixels."""
    image, volume = draw(torch.float32, 2, 3, 5, 6), draw(torch.float32, 2, 2, 3, 4, 5)
    flat, solid = draw(torch.float32, 2, 4, 5, 2, seed=1), draw(torch.float32, 2, 3, 2, 4, 3, seed=1)
    calls: list[Call] = []
    for rank, x, grid in ((2, image, flat), (3, volume, solid)):
        for interpolation in (0, 1, 2) if rank == 2 else (0, 1):
            for padding in (0, 1, 2):
                for align_corners in (False, True):
                    modes = (interpolation, padding, align_corners)
                    calls.append(call(f"aten.grid_sampler_{rank}d.default", x, grid, *modes))
                    grad = draw(torch.float32, *x.shape[:2], *grid.shape[1:-1], seed=2)
                    backward = f"aten.grid_sampler_{rank}d_backward.default"
                    if align_corners and padding == interpolation:  # each mode once: derivatives are dear to compile
                        calls.append(call(backward, grad, x, grid, *modes, [True, True]))
    theta, theta3 = draw(torch.float32, 2, 2, 3), draw(torch.float32, 2, 3, 4)
    for align_corners in (False, True):
        calls.append(call("aten.affine_grid_generator.default", theta, [2, 3, 4, 5], align_corners))
        calls.append(call("aten.affine_grid_generator.default", theta3, [2, 3, 1, 4, 5], align_corners))
    compare_all(calls, ulps=64)

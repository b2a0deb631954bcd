"""Movement against PyTorch eager, bit for bit: no arithmetic, so no tolerance.

Only the transposed operations (paddings' backwards, col2im, unfold_backward) sum, and get 2 ULPs: they round a
float32 sum once where eager rounds after each addition.
"""

from __future__ import annotations

import pytest
import torch

from tests.twin import Call, call, compare_all

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64)
SUMMED = (torch.float32, torch.bfloat16, torch.float16)


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + 17 * len(shape))
    numbers = torch.randint(-40, 40, shape, generator=generator)
    if dtype.is_complex:
        return torch.complex(numbers / 8, numbers.flip(-1) / 4 if shape else numbers / 4).to(dtype)
    return (
        (numbers > 0)
        if dtype is torch.bool
        else (numbers / 8).to(dtype)
        if dtype.is_floating_point
        else numbers.to(dtype)
    )


def views(dtype: torch.dtype) -> list[Call]:
    x, y, scalar, empty = (
        values(3, 4, 5, dtype=dtype),
        values(4, 6, dtype=dtype),
        values(dtype=dtype),
        values(0, 3, dtype=dtype),
    )
    return [
        call("aten.view.default", x, [12, -1]),
        call("aten._unsafe_view.default", x, [60]),
        call("aten.reshape.default", empty, [3, 0]),
        call("aten.expand.default", values(4, 1, dtype=dtype), [2, -1, 3]),
        call("aten.expand_copy.default", scalar, [2, 2]),
        call("aten.permute.default", x, [-1, 0, 1]),
        call("aten.permute_copy.default", x, [2, 0, 1]),
        call("aten.t.default", y),
        call("aten.t.default", values(4, dtype=dtype)),
        call("aten.transpose.int", x, 0, -1),
        call("aten.transpose.int", scalar, 0, -1),
        call("aten.squeeze.default", values(1, 3, 1, dtype=dtype)),
        call("aten.squeeze.dim", values(1, 3, 1, dtype=dtype), -1),
        call("aten.squeeze.dims", values(1, 3, 1, dtype=dtype), [0, 1]),
        call("aten.unsqueeze.default", x, -2),
        call("aten.select.int", x, -2, -1),
        call("aten.select_copy.int", x, 0, 1),
        call("aten.slice.Tensor", x, 1, -3, 9223372036854775807, 2),
        call("aten.slice.Tensor", x, -1, 4, 2),
        call("aten.slice.Tensor", x, 0, None, -1),
        call("aten.slice_copy.Tensor", x, 2, 1, 100),
        call("aten.narrow.default", x, 1, -3, 2),
        call("aten.narrow_copy.default", x, -1, 0, 4),
        call("aten.split.Tensor", x, 2, -1),
        call("aten.split_with_sizes.default", x, [1, 0, 3], 1),
        call("aten.split_with_sizes_copy.default", x, [2, 1], 0),
        call("aten.unsafe_split.Tensor", x, 3, 1),
        call("aten.chunk.default", x, 2, 2),
        call("aten.tensor_split.sections", x, 3, 1),
        call("aten.tensor_split.indices", x, [1, 3], 2),
        call("aten.unbind.int", x, -2),
        call("aten.unbind_copy.int", y),
        call("aten.unfold.default", x, -1, 3, 2),
        call("aten.unfold.default", x, 1, 2, 2),
        call("aten.unfold.default", scalar, 0, 1, 1),
        call("aten.unfold_copy.default", x, 0, 1, 5),
        call("aten.diagonal.default", x, 1, -1, 0),
        call("aten.diagonal.default", y, -2),
        call("aten.diagonal.default", y, 6),
        call("aten.diagonal_copy.default", y, 3),
        call("aten.as_strided.default", y, [2, 3], [3, 2], 1),
        call("aten.as_strided.default", y, [6, 4], [1, 6]),
        call("aten.as_strided.default", y, [2, 3, 4], [0, 1, 6], 2),
        call("aten.as_strided.default", y, [0, 3], [1, 1], 50),
        call("aten.as_strided_copy.default", y, [3, 5], [6, 1], 1),
        call("aten.alias.default", x),
        call("aten.detach.default", scalar),
        call("aten.clone.default", x, memory_format=torch.contiguous_format),
        call("aten.lift_fresh_copy.default", x),
        call("aten.movedim.int", x, 0, -1),
    ]


def rearrangements(dtype: torch.dtype) -> list[Call]:
    x, y, scalar, empty = (
        values(3, 4, 5, dtype=dtype),
        values(4, 6, dtype=dtype),
        values(dtype=dtype),
        values(0, 3, dtype=dtype),
    )
    image = values(2, 8, 3, 4, dtype=dtype)
    return [
        call("aten.diag_embed.default", x, -1, 0, -1),
        call("aten.diag_embed.default", empty),
        call("aten.diag.default", y, 1),
        call("aten.diag.default", values(3, dtype=dtype), -2),
        call("aten.flip.default", x, [0, -1]),
        call("aten.flip.default", scalar, []),
        call("aten.flip.default", empty, [0]),
        call("aten.roll.default", x, [2, -7], [0, -1]),
        call("aten.roll.default", x, [13]),
        call("aten.roll.default", empty, [1], [0]),
        *(call("aten.rot90.default", x, k, [0, 2]) for k in (-1, 0, 1, 2, 3)),
        call("aten.repeat.default", y, [2, 1, 3]),
        call("aten.repeat.default", scalar, [2]),
        call("aten.repeat.default", y, [2, 0]),
        call("aten.tile.default", x, [2]),
        call("aten.repeat_interleave.self_int", x, 3, 1),
        call("aten.repeat_interleave.self_int", y, 2),
        call("aten.cat.default", [x, values(3, 2, 5, dtype=dtype)], -2),
        call("aten.cat.default", [values(0, dtype=dtype), y], 1),
        call("aten.cat.default", [values(0, dtype=dtype)]),
        call("aten.stack.default", [scalar, scalar], -1),
        call("aten.stack.default", [y, y], -1),
        call("aten.block_diag.default", [y, scalar, values(2, dtype=dtype)]),
        call("aten.constant_pad_nd.default", x, [1, 2, -1, 0], 1),
        call("aten.constant_pad_nd.default", x, [-1, -2, 0, 3]),
        call("aten.constant_pad_nd.default", empty, [0, 0, 2, 0]),
        call("aten.where.self", values(3, 1, dtype=torch.bool), values(4, dtype=dtype), scalar),
        call("aten.tril.default", x, 1),
        call("aten.triu.default", x, -2),
        call("aten.triu.default", y, 5),
        call("aten.tril.default", y, -(2**40)),
        call("aten.pixel_shuffle.default", image, 2),
        call("aten.pixel_unshuffle.default", values(2, 3, 4, 6, dtype=dtype), 2),
        call("aten.channel_shuffle.default", image, 4),
        call("aten.slice_scatter.default", x, values(3, 2, 5, dtype=dtype), 1, 0, 4, 2),
        call("aten.slice_scatter.default", x, values(3, 2, 5, dtype=dtype), 1, -2),
        call("aten.select_scatter.default", x, values(3, 5, dtype=dtype), 1, -1),
        call("aten.diagonal_scatter.default", y, values(4, dtype=dtype), 2),
        call("aten.as_strided_scatter.default", y, values(2, 2, dtype=dtype), [2, 2], [6, 2], 1),
        call("aten.slice_backward.default", values(3, 2, 5, dtype=dtype), [3, 4, 5], 1, 0, 3, 2),
        call("aten.select_backward.default", values(3, 5, dtype=dtype), [3, 4, 5], 1, -1),
        call("aten.diagonal_backward.default", values(3, 3, dtype=dtype), [3, 4, 5], -1, -2, 2),
    ]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_views(dtype: torch.dtype) -> None:
    compare_all(views(dtype), ulps=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rearrangements(dtype: torch.dtype) -> None:
    compare_all(rearrangements(dtype), ulps=0)

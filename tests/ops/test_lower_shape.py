"""Movement against PyTorch eager, bit for bit: no arithmetic, so no tolerance.

Only the transposed operations (paddings' backwards, col2im, unfold_backward) sum, and get 2 ULPs: they round a
float32 sum once where eager rounds after each addition.
"""

from __future__ import annotations

import pytest
import torch

from tests.twin import Call, call, compare_all, run, single_node_graph
from truecast.errors import UnsupportedError
from truecast.numerics.numerics import Numerics

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
        call("aten.view.default", empty, [3, 0]),
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
        call("aten.narrow_copy.default", x, 2, -3, 2),
        call("aten.split.Tensor", x, 2, -1),
        call("aten.split_with_sizes.default", x, [1, 0, 3], 1),
        call("aten.split_with_sizes_copy.default", x, [2, 1], 0),
        call("aten.unsafe_split.Tensor", x, 3, 1),
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
        call("aten.repeat_interleave.self_int", x, 3, 1),
        call("aten.repeat_interleave.self_int", y, 2),
        call("aten.cat.default", [x, values(3, 2, 5, dtype=dtype)], -2),
        call("aten.cat.default", [values(0, dtype=dtype), y], 1),
        call("aten.cat.default", [values(0, dtype=dtype)]),
        call("aten.stack.default", [scalar, scalar], -1),
        call("aten.stack.default", [y, y], -1),
        call("aten._chunk_cat.default", [values(5, 2, dtype=dtype), values(3, 2, 2, dtype=dtype)], 0, 3),
        call("aten._chunk_cat.default", [values(2, 5, dtype=dtype), values(2, 4, dtype=dtype)], -1, 2),
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


def summed(dtype: torch.dtype) -> list[Call]:
    image, row, volume = (
        values(2, 3, 4, 5, dtype=dtype),
        values(2, 3, 6, dtype=dtype),
        values(1, 2, 3, 4, 3, dtype=dtype),
    )
    return [
        call("aten.reflection_pad1d_backward.default", values(2, 3, 11, dtype=dtype), row, [2, 3]),
        call("aten.reflection_pad2d_backward.default", values(2, 3, 6, 9, dtype=dtype), image, [3, 1, 0, 2]),
        call("aten.reflection_pad3d_backward.default", values(1, 2, 6, 6, 6, dtype=dtype), volume, [1, 2, 1, 1, 1, 2]),
        call("aten.replication_pad1d_backward.default", values(2, 3, 10, dtype=dtype), row, [4, 0]),
        call("aten.replication_pad2d_backward.default", values(2, 3, 7, 9, dtype=dtype), image, [3, 1, 1, 2]),
        call("aten.replication_pad3d_backward.default", values(1, 2, 6, 6, 6, dtype=dtype), volume, [1, 2, 1, 1, 1, 2]),
        call("aten.unfold_backward.default", values(2, 3, 2, 3, dtype=dtype), [2, 3, 6], 2, 3, 2),
        call("aten.unfold_backward.default", values(2, 3, 3, 2, dtype=dtype), [2, 3, 6], 2, 2, 2),
        call("aten.col2im.default", values(2, 12, 12, dtype=dtype), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1]),
        call("aten.col2im.default", values(8, 4, dtype=dtype), [4, 5], [2, 2], [2, 1], [1, 1], [2, 3]),
    ]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_views(dtype: torch.dtype) -> None:
    compare_all(views(dtype), ulps=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rearrangements(dtype: torch.dtype) -> None:
    compare_all(rearrangements(dtype), ulps=0)


@pytest.mark.parametrize("dtype", SUMMED, ids=str)
def test_sums_of_copies(dtype: torch.dtype) -> None:
    compare_all(summed(dtype), ulps=2)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.complex64), ids=str)
def test_padding(dtype: torch.dtype) -> None:
    image, row, volume = values(2, 3, 4, 5, dtype=dtype), values(3, 6, dtype=dtype), values(2, 3, 4, 3, dtype=dtype)
    compare_all(
        [
            call("aten.reflection_pad1d.default", row, [5, 2]),
            call("aten.reflection_pad2d.default", image, [3, 1, 0, 2]),
            call("aten.reflection_pad3d.default", volume, [1, 2, 1, 1, 1, 2]),
            call("aten.replication_pad1d.default", row, [9, 0]),
            call("aten.replication_pad2d.default", image, [3, 1, -1, 2]),
            call("aten.replication_pad3d.default", volume, [1, 2, 1, 1, 1, 2]),
            call("aten.im2col.default", image, [2, 3], [1, 2], [1, 0], [2, 1]),
            call("aten.im2col.default", image[0], [2, 2], [1, 1], [1, 1], [1, 1]),
        ],
        ulps=0,
    )


def test_bits_as_another_dtype() -> None:
    words = torch.arange(-6, 6, dtype=torch.int32).reshape(3, 4) * 0x1234567
    halves = words.view(torch.float16).nan_to_num()
    compare_all(
        [
            call("aten.view.dtype", words, torch.int16),
            call("aten.view.dtype", words, torch.float32),
            call("aten.view.dtype", words, torch.complex64),
            call("aten.view.dtype", words, torch.uint8),
            call("aten.view.dtype", halves, torch.int64),
            call("aten.view.dtype", values(2, 2, dtype=torch.complex64), torch.float32),
            call("aten.view.dtype", values(2, 2, dtype=torch.complex64), torch.complex128),
            call("aten.view.dtype", values(2, 8, dtype=torch.bool), torch.int32),
            call("aten.view.dtype", values(2, 8, dtype=torch.bool).to(torch.uint8), torch.bool),
            call("aten.view.dtype", values(dtype=torch.bfloat16), torch.int16),
            call("aten.view_as_real.default", values(2, 3, dtype=torch.complex64)),
            call("aten.view_as_complex.default", values(4, 2)),
        ],
        ulps=0,
    )


def test_mixed_dtypes_promote_where_pytorch_promotes() -> None:
    half, whole, single = values(2, 3, dtype=torch.float16), values(2, 3, dtype=torch.int64), values(2, 3)
    mask = values(2, 3, dtype=torch.bool)
    compare_all(
        [
            call("aten.cat.default", [half, whole]),
            call("aten.cat.default", [half, values(2, 3, dtype=torch.bfloat16)], 1),
            call("aten.stack.default", [whole, mask]),
            call("aten.where.self", mask, half, values(dtype=torch.float32)),
            call("aten.where.self", mask, whole, values(dtype=torch.float16)),
            call("aten.where.self", mask.to(torch.uint8), single, half),
        ],
        ulps=0,
    )


def test_as_strided_beyond_the_tensor_is_refused() -> None:
    base = torch.arange(12.0)
    with pytest.raises(UnsupportedError) as caught:
        compare_all([call("aten.as_strided.default", base[:6], [2, 4], [4, 1])])
    assert str(caught.value) == (
        "aten.as_strided.default reaches element 7 of a storage that the Graph knows 6 elements of\n"
        "  --> <unknown>\n"
        "  values: float32[6]\n"
        "  why: its lowering rule does not cover this form\n"
        "  help: apply as_strided to the whole tensor, or write it with slice, permute and expand"
    )


def test_bits_of_a_mapped_dtype_are_refused() -> None:
    stored = Numerics("stored", storage=(("float32", "bfloat16"),))
    graph, tensors, _ = single_node_graph("aten.view.dtype", values(4), torch.int32)
    with pytest.raises(UnsupportedError, match="reinterprets the bits of a dtype that `storage` maps to another one"):
        run(graph, [t.to(torch.bfloat16) for t in tensors], stored)

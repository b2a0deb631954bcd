"""Reading and writing at positions against PyTorch eager: bit for bit where nothing is summed.

Sums at duplicate positions get 2 ULPs: truecast adds in float32 and rounds once, eager rounds after each addition.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.twin import EAGER, Call, call, compare_all, run, single_node_graph
from truecast.errors import UnsupportedError

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64)
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3 * sum(shape) + len(shape))
    numbers = torch.randint(-40, 40, shape, generator=generator)
    if dtype.is_complex:
        return torch.complex(numbers / 8, -numbers / 4).to(dtype)
    if dtype is torch.bool:
        return numbers > 0
    return (numbers / 8 if dtype.is_floating_point else numbers).to(dtype)


def longs(*numbers: Any) -> torch.Tensor:
    return torch.tensor(numbers if len(numbers) > 1 else numbers[0], dtype=torch.int64)


def reads(dtype: torch.dtype) -> list[Call]:
    x, y, scalar, empty = (
        values(4, 5, 6, dtype=dtype),
        values(7, dtype=dtype),
        values(dtype=dtype),
        values(0, 3, dtype=dtype),
    )
    mask = values(4, 5, 6, dtype=torch.bool)
    i, j = longs([2, -1, 0]), longs([[-3], [3]])
    return [
        call("aten.index.Tensor", x, [i]),
        call("aten.index.Tensor", x, [None, i, None]),
        call("aten.index.Tensor", x, [j, i]),
        call("aten.index.Tensor", x, [i, None, i.int()]),
        call("aten.index.Tensor", x, [None, i, j]),
        call("aten.index.Tensor", x, [longs(2), longs(-5)]),
        call("aten.index.Tensor", x, [torch.zeros(0, 2, dtype=torch.int64)]),
        call("aten._unsafe_index.Tensor", x, [None, None, j]),
        call("aten.index_select.default", x, -2, longs([4, 0, 0])),
        call("aten.index_select.default", x, 0, longs(1)),
        call("aten.index_select.default", scalar, 0, longs([0])),
        call("aten.index_select.default", x, 1, torch.zeros(0, dtype=torch.int32)),
        call("aten.gather.default", x, 1, torch.tensor([[[4, 0, 1], [2, 2, 2]], [[0, 1, 2], [3, 4, 0]]])),
        call("aten.gather.default", x, -1, torch.zeros(4, 5, 0, dtype=torch.int64)),
        call("aten.gather.default", y, 0, longs(6)),
        call("aten.gather.default", scalar, 0, longs([0])),
        call("aten.take.default", x, longs([[-1, 0], [119, 57]])),
        call("aten.take.default", scalar, longs(-1)),
        call("aten.embedding.default", x[0], longs([[0, 4], [3, 3]]), 3),
        call("aten.embedding.default", x[0], torch.zeros(0, dtype=torch.int32)),
        call("aten.nonzero_static.default", x, size=150),
        call("aten.nonzero_static.default", x, size=7, fill_value=9),
        call("aten.nonzero_static.default", empty, size=2),
        call("aten.masked_fill.Scalar", x, mask, 1),
        call("aten.masked_fill.Scalar", x, mask[0, :, :1], 0),
        call("aten.masked_fill.Tensor", y, values(3, 7, dtype=torch.bool), values(dtype=dtype)),
        call("aten.masked_fill.Scalar", scalar, torch.tensor(True), 1),
        call("aten.masked_scatter.default", x, mask, values(120, dtype=dtype)),
        call("aten.masked_scatter.default", x, mask[0, 0], values(150, dtype=dtype)),
        call("aten.masked_scatter_backward.default", x, mask, [10, 12]),
        call("aten._unsafe_masked_index.default", x, values(2, 3, dtype=torch.bool), [None, j, longs([9, -7, 2])], 1),
    ]


def writes(dtype: torch.dtype) -> list[Call]:
    x, scalar = values(4, 5, 6, dtype=dtype), values(dtype=dtype)
    i, j = longs([2, -1, 0]), longs([[-3], [3]])
    mask = values(4, 5, 6, dtype=torch.bool)
    flat = values(7, dtype=dtype)
    small = torch.tensor([[[3, 0, 1]], [[0, 2, 3]]])
    return [
        call("aten.index_put.default", x, [i], values(3, 5, 6, dtype=dtype)),
        call("aten.index_put.default", x, [None, i], values(3, 1, dtype=dtype)),
        call("aten.index_put.default", x, [j, i], values(6, dtype=dtype)),
        call("aten.index_put.default", x, [i, None, i], scalar),
        call("aten._unsafe_index_put.default", x, [i, i, i], values(3, dtype=dtype)),
        call("aten.index_put.default", x, [mask], scalar),
        call("aten.index_put.default", x, [mask], values(int(mask.sum()), dtype=dtype)),
        call("aten.index_put.default", x, [mask[:, :, 0]], values(int(mask[:, :, 0].sum()), 6, dtype=dtype)),
        call("aten.index_put.default", x, [None, mask[0, :, 0]], values(4, int(mask[0, :, 0].sum()), 1, dtype=dtype)),
        call("aten.index_put.default", x, [None, None, mask[0, 0]], values(1, dtype=dtype)),
        call("aten.index_put.default", x, [torch.zeros_like(mask)], values(0, dtype=dtype)),
        call("aten.scatter.src", x, 0, small, values(4, 5, 6, dtype=dtype)),
        call("aten.scatter.value", x, -1, small, 1),
        call("aten.scatter.src", flat, 0, longs(6), scalar),
        call("aten.scatter.value", scalar, 0, longs([0]), 0),
        call("aten.scatter.src", x, 0, torch.zeros(0, dtype=torch.int64), x),
        call("aten.index_copy.default", x, 1, longs([4, 0]), values(4, 2, 6, dtype=dtype)),
        call("aten.index_copy.default", scalar, 0, longs(0), values(dtype=dtype)),
        call("aten.index_fill.int_Scalar", x, -1, longs([-1, 0]), 1),
        call("aten.index_fill.int_Tensor", x, 0, longs(2), values(dtype=dtype)),
        call("aten.put.default", x, longs([[0, -1], [50, 3]]), values(2, 2, dtype=dtype)),
    ]


def sums(dtype: torch.dtype) -> list[Call]:
    x, flat, scalar = values(4, 5, 6, dtype=dtype), values(7, dtype=dtype), values(dtype=dtype)
    i, j = longs([2, -1, 2]), longs([[-3], [3]])
    twice = torch.tensor([[[3, 0, 3], [3, 1, 1]], [[0, 3, 3], [0, 0, 2]]])
    return [
        call("aten.index_put.default", x, [i], values(3, 5, 6, dtype=dtype), True),
        call("aten.index_put.default", x, [None, i, j], scalar, True),
        call("aten.index_put.default", x, [values(4, 5, dtype=torch.bool)], values(6, dtype=dtype), True),
        call("aten.scatter_add.default", x, 0, twice, values(4, 5, 6, dtype=dtype)),
        call("aten.scatter_add.default", flat, 0, longs([1, 1, 1, 0]), values(5, dtype=dtype)),
        call("aten.scatter_add.default", scalar, 0, longs(0), values(dtype=dtype)),
        call("aten.scatter.reduce", x, 1, twice, values(4, 5, 6, dtype=dtype), reduce="add"),
        call("aten.index_add.default", x, 1, longs([4, 0, 4]), values(4, 3, 6, dtype=dtype)),
        call("aten.index_add.default", scalar, 0, longs(0), values(dtype=dtype)),
        call("aten.index_add.default", x, 0, longs([1, 3]), values(2, 5, 6, dtype=dtype), alpha=0),
        call("aten.put.default", x, longs([[0, -1], [0, 3]]), values(2, 2, dtype=dtype), True),
        call(
            "aten._unsafe_masked_index_put_accumulate.default",
            x,
            values(2, 3, dtype=torch.bool),
            [None, j, longs([9, -7, 2])],
            values(4, 2, 3, dtype=dtype),
        ),
    ]


def reductions(dtype: torch.dtype) -> list[Call]:
    x, source = values(4, 5, 6, dtype=dtype), values(4, 3, 6, dtype=dtype)
    index = torch.tensor([[[3, 0, 3], [3, 1, 1]], [[0, 3, 3], [0, 0, 2]]])
    calls = [call("aten.index_add.default", x, 1, longs([4, 0, 4]), source, alpha=2)]
    for include in (True, False):
        for reduce in ("sum", "prod", "mean", "amax", "amin"):
            calls.append(call("aten.scatter_reduce.two", x, 0, index, x.flip(0), reduce, include_self=include))
            if reduce != "sum":
                rows = longs([4, 0, 4])
                calls.append(call("aten.index_reduce.default", x, 1, rows, source, reduce, include_self=include))
    calls.append(call("aten.scatter.reduce", x, 1, index, x, reduce="multiply"))
    calls.append(call("aten.scatter.value_reduce", x, 1, index, 2, reduce="multiply"))
    return calls


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reading(dtype: torch.dtype) -> None:
    compare_all(reads(dtype), ulps=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_writing(dtype: torch.dtype) -> None:
    compare_all(writes(dtype), ulps=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_at_duplicate_positions(dtype: torch.dtype) -> None:
    compare_all(sums(dtype), ulps=2)


@pytest.mark.parametrize("dtype", (*FLOATS, torch.int64, torch.int32), ids=str)
def test_reductions_at_duplicate_positions(dtype: torch.dtype) -> None:
    compare_all(reductions(dtype), ulps=4)


def embedding_gradients(dtype: torch.dtype) -> list[Call]:
    grad = values(2, 3, 4, dtype=dtype)
    indices = torch.tensor([[3, 0, 3], [3, 1, 1]])
    return [
        call("aten.embedding_dense_backward.default", grad, indices, 5, padding, scale)
        for padding in (-1, 1)
        for scale in (False, True)
    ]


def renormed(dtype: torch.dtype) -> list[Call]:
    weight, indices = values(5, 4, dtype=dtype), torch.tensor([[3, 0], [3, 1]])
    return [call("aten.embedding_renorm.default", weight, indices, 4.0, p) for p in (1.0, 2.0, 3.0, math.inf)]


def bags(dtype: torch.dtype, offsets: list[int], include_last: bool) -> list[Call]:
    """Forward and backward for each mode; what the backward gets is what the forward gives.

    Only the greatest index repeats: for scale_grad_by_freq, eager on the CPU takes the i-th unique index's count
    from the i-th sorted position, which is another index's as soon as one before it repeats.
    """
    weight = values(5, 4, dtype=dtype)
    indices = torch.tensor([1, 2, 3, 0, 4, 4])
    starts = torch.tensor(offsets)
    sample_weights = values(6, dtype=dtype)
    calls = []
    for mode, samples, padding in ((0, None, -1), (0, sample_weights, 3), (1, None, -1), (1, None, 3), (2, None, 3)):
        arguments = (weight, indices, starts, False, mode, False, samples, include_last, padding)
        calls.append(call("aten._embedding_bag.default", *arguments))
        calls.append(call("aten._embedding_bag_forward_only.default", *arguments))
        result, bag, size, largest = torch.ops.aten._embedding_bag.default(*arguments)
        grad = values(*result.shape, dtype=dtype)
        begins = starts[:-1] if include_last else starts
        for scale in (False, True) if mode != 2 else (False,):
            backward = (grad, indices, begins, bag, size, largest, 5, scale, mode, False, samples, padding)
            calls.append(call("aten._embedding_bag_backward.default", *backward))
        if samples is not None:
            operands = (grad, weight, indices, begins, bag, mode, padding)
            calls.append(call("aten._embedding_bag_per_sample_weights_backward.default", *operands))
    return calls


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_embedding_gradients(dtype: torch.dtype) -> None:
    compare_all([*embedding_gradients(dtype), *renormed(dtype)], ulps=2)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_bags_of_embeddings(dtype: torch.dtype) -> None:
    compare_all([*bags(dtype, [0, 2, 2, 5], False), *bags(dtype, [0, 2, 6], True)], ulps=4)


def outcome(op: str, *args: Any, replaced: dict[int, torch.Tensor], **kwargs: Any) -> np.ndarray:
    """What the program of one call gives for other tensors than those it was made with (by position)."""
    graph, tensors, _ = single_node_graph(op, *args, **kwargs)
    (result,) = run(graph, [replaced.get(i, t) for i, t in enumerate(tensors)])
    return result


def test_reads_out_of_bounds_never_give_another_element() -> None:
    x, whole, inside = values(4, 3), values(4, 3, dtype=torch.int64), longs([0, 1])
    outside = longs([9, 1])
    for op, arguments in (
        ("aten.index_select.default", (0, inside)),
        ("aten.index.Tensor", ([inside],)),
        ("aten.embedding.default", (inside,)),
    ):
        got = outcome(op, x, *arguments, replaced={1: outside})
        assert np.isnan(got[0]).all(), op
        np.testing.assert_array_equal(got[1], x[1].numpy(), err_msg=op)
        if op != "aten.embedding.default":
            got = outcome(op, whole, *arguments, replaced={1: outside})
            assert (got[0] == np.iinfo(np.int64).min).all(), op
    # A negative position counts from the end only where PyTorch says so.
    assert np.isnan(outcome("aten.index_select.default", x, 0, inside, replaced={1: longs([-1, 1])})[0]).all()
    assert np.isnan(outcome("aten.gather.default", x, 0, longs([[0]]), replaced={1: longs([[-1]])})).all()
    np.testing.assert_array_equal(outcome("aten.take.default", x, inside, replaced={1: longs([-1, 0])})[0], x[3, 2])
    assert np.isnan(outcome("aten.take.default", x, inside, replaced={1: longs([-13, 12])})).all()


def test_writes_out_of_bounds_are_dropped() -> None:
    x, inside, rows = values(4, 3), longs([0, 1]), torch.ones(2, 3)
    expected = x.clone()
    expected[1] = 1
    for position in (4, -5):
        outside = longs([position, 1])
        for op, arguments in (
            ("aten.index_put.default", ([inside], rows)),
            ("aten.index_copy.default", (0, inside, rows)),
            ("aten.index_fill.int_Scalar", (0, inside, 1)),
            ("aten.scatter.value", (0, inside.reshape(2, 1).expand(2, 3).contiguous(), 1)),
        ):
            other = outside.reshape(2, 1).expand(2, 3).contiguous() if "scatter" in op else outside
            got = outcome(op, x, *arguments, replaced={1: other})
            np.testing.assert_array_equal(got, expected.numpy(), err_msg=f"{op} at {position}")


def test_of_several_writes_the_last_one_stands() -> None:
    x, source = torch.zeros(3), torch.arange(1.0, 7.0)
    where = longs([0, 2, 0, 0, 2, 0])
    compare_all(
        [
            call("aten.index_put.default", x, [where], source),
            call("aten.scatter.src", x, 0, where, source),
            call("aten.index_copy.default", x, 0, where, source),
        ],
        ulps=0,
    )


def test_many_small_terms_are_summed_in_float32() -> None:
    """1000 times 1 at one position: bfloat16 sums stop at 256, where adding 1 changes nothing (law N4)."""
    zeros, ones = torch.zeros(2, dtype=torch.bfloat16), torch.ones(1000, dtype=torch.bfloat16)
    where = torch.zeros(1000, dtype=torch.int64)
    for op, arguments in (
        ("aten.index_put.default", ([where], ones, True)),
        ("aten.index_add.default", (0, where, ones)),
        ("aten.scatter_add.default", (0, where, ones)),
        ("aten.embedding_dense_backward.default", (where, 2, -1, False)),
    ):
        first = ones.reshape(1000, 1) if "embedding" in op else zeros
        graph, tensors, _ = single_node_graph(op, first, *arguments)
        (got,) = run(graph, tensors)
        assert float(got.reshape(-1)[0]) == 1000, op
        (kept_narrow,) = run(graph, tensors, EAGER.with_rule(kind="indexing", accumulate="same"))
        assert float(kept_narrow.reshape(-1)[0]) == 256, f"{op}: the policy's accumulate is not obeyed"


@pytest.mark.parametrize(
    ("op", "arguments", "help"),
    [
        ("aten.nonzero.default", (), "use torch.nonzero_static(x, size=n), or a mask with torch.where"),
        (
            "aten.masked_select.default",
            (torch.tensor([True, False]),),
            "keep the shape: torch.where(mask, x, fill), or reduce over x * mask",
        ),
        (
            "aten.index.Tensor",
            ([torch.tensor([True, False])],),
            "keep the shape: torch.where(mask, x, fill), or reduce over x * mask",
        ),
    ],
)
def test_results_of_unknown_size_are_refused(op: str, arguments: tuple[Any, ...], help: str) -> None:
    graph, tensors, _ = single_node_graph(op, torch.tensor([1.0, 0.0]), *arguments)
    with pytest.raises(UnsupportedError) as caught:
        run(graph, tensors)
    operands = "float32[2], bool[2]" if arguments else "float32[2]"
    assert str(caught.value) == (
        f"{op} makes a result whose shape depends on values\n"
        "  --> <unknown>\n"
        f"  values: {operands}\n"
        "  why: XLA compiles a program for fixed shapes; the shape seen while capturing holds for that data only\n"
        f"  help: {help}"
    )


def test_a_mask_with_other_indices_is_refused() -> None:
    x, mask = values(2, 3), torch.tensor([True, False, True])
    graph, tensors, _ = single_node_graph("aten.index_put.default", x, [longs([0, 1]), mask], torch.ones(2))
    with pytest.raises(UnsupportedError) as caught:
        run(graph, tensors)
    assert str(caught.value) == (
        "aten.index_put.default mixes a mask with other indices\n"
        "  --> <unknown>\n"
        "  values: float32[2,3], int64[2], bool[3], float32[2]\n"
        "  why: its lowering rule does not cover this form\n"
        "  help: write it as torch.where over the broadcast mask"
    )


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_index_follows_pytorch_for_any_mix_of_positions(data: st.DataObject) -> None:
    """Which dims are indexed decides where the index's own dims go: together in place, apart in front."""
    x = values(3, 4, 2, 3)
    shapes = st.sampled_from([(), (2,), (1, 2), (3, 1)])
    indices: list[torch.Tensor | None] = []
    for extent in x.shape:
        if data.draw(st.booleans()):
            shape = data.draw(shapes)
            count = int(np.prod(shape))
            numbers = data.draw(st.lists(st.integers(-extent, extent - 1), min_size=count, max_size=count))
            indices.append(torch.tensor(numbers).reshape(shape))
        else:
            indices.append(None)
    assume(any(i is not None for i in indices))
    replacement = values(*torch.ops.aten.index.Tensor(x, indices).shape)
    compare_all(
        [
            call("aten.index.Tensor", x, indices),
            call("aten.index_put.default", x, indices, replacement),
            call("aten.index_put.default", x, indices, replacement, True, ulps=2),
        ],
        ulps=0,
    )

"""Sorting and searching against PyTorch eager, bit for bit.

Where PyTorch leaves open which of several equal elements is named (topk, kthvalue, nanmedian, mode), the values are
compared with eager's and the indices must lead to those values.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin import EAGER, call, check, compare_all, run, single_node_graph, to_numpy
from truecast.errors import UnsupportedError
from truecast.lowering.emit import function_of
from truecast.numerics.plan import resolve

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
DTYPES = (*FLOATS, torch.int64, torch.bool)


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Few distinct numbers, so that ties are common."""
    numbers = torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(3 + sum(shape)))
    return numbers > 0 if dtype is torch.bool else numbers.to(dtype)


def with_specials(dtype: torch.dtype) -> torch.Tensor:
    x = values(5, 9, dtype=dtype)
    x[0, 2] = x[0, 7] = x[1, 0] = math.nan
    x[2] = math.nan
    x[3, 4], x[3, 5], x[3, 6], x[3, 7] = -0.0, 0.0, math.inf, -math.inf
    return x


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_stable_sort(dtype: torch.dtype) -> None:
    x = values(4, 9, dtype=dtype)
    operands = [with_specials(dtype) if dtype.is_floating_point else x, values(dtype=dtype), values(0, 3, dtype=dtype)]
    compare_all(
        [
            call("aten.sort.stable", operand, stable=True, dim=dim, descending=descending)
            for operand in operands
            for dim, descending in ((0, True), (-1, False))
        ],
        ulps=0,
    )


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int64), ids=str)
def test_selection_by_rank(dtype: torch.dtype) -> None:
    x, scalar = values(4, 9, dtype=dtype), values(dtype=dtype)
    operand = with_specials(dtype) if dtype.is_floating_point else x
    calls = [
        call("aten.median.default", x),
        call("aten.median.default", values(0, dtype=dtype)),
        call("aten.median.default", scalar),
        call("aten.nanmedian.default", x),
        call("aten.topk.default", scalar, 1),
        call("aten.topk.default", x, 0),
        call("aten.kthvalue.default", scalar, 1),
        call("aten.mode.default", scalar),
        call("aten.mode.default", x, 0, True, outputs=(0,)),
        call("aten.mode.default", x, outputs=(0,)),
        call("aten.sort.default", operand, outputs=(0,)),
        call("aten.topk.default", operand, 3, outputs=(0,)),
        call("aten.topk.default", operand, 4, 0, False, outputs=(0,)),
        call("aten.kthvalue.default", operand, 3, 0, outputs=(0,)),
        call("aten.kthvalue.default", operand, 8, -1, True, outputs=(0,)),
        call("aten.median.dim", operand, 1, outputs=(0,)),
        call("aten.median.dim", operand, 0, True, outputs=(0,)),
        call("aten.nanmedian.dim", operand, -1, outputs=(0,)),
        call("aten.nanmedian.default", operand),
        call("aten.median.default", operand),
    ]
    compare_all(calls, ulps=0.01)  # equal values; which of -0.0 and 0.0 is left open


def test_indices_lead_to_the_values() -> None:
    for x in (with_specials(torch.float32),):
        for op, *arguments in (
            ("aten.sort.default",),
            ("aten.topk.default", 5),
            ("aten.kthvalue.default", 4, -1, True),
            ("aten.median.dim", -1, True),
            ("aten.nanmedian.dim", -1, True),
            ("aten.mode.default", -1, True),
        ):
            graph, tensors, _ = single_node_graph(op, x, *arguments)
            found, indices = run(graph, tensors)
            np.testing.assert_array_equal(np.take_along_axis(x.numpy(), indices, -1), found, err_msg=op)
            assert all(len(set(line)) == len(line) for line in indices), f"{op} names an element twice"


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int64), ids=str)
def test_searching(dtype: torch.dtype) -> None:
    edges = values(9, dtype=dtype).sort().values
    rows = values(3, 7, dtype=dtype).sort().values
    wanted = values(3, 4, dtype=dtype)
    unsorted = values(3, 7, dtype=dtype)
    calls = [
        call("aten.searchsorted.Tensor", edges, wanted),
        call("aten.searchsorted.Tensor", rows, wanted, right=True),
        call("aten.searchsorted.Tensor", rows, wanted, side="right", out_int32=True),
        call("aten.searchsorted.Tensor", unsorted, wanted, sorter=unsorted.sort().indices),
        call("aten.searchsorted.Scalar", edges, 1),
        call("aten.bucketize.Tensor", wanted, edges),
        call("aten.bucketize.Tensor", wanted, edges, out_int32=True, right=True),
        call("aten.bucketize.Scalar", 2, edges),
        call("aten.bucketize.Tensor", wanted, edges[:0]),
        call("aten.isin.Tensor_Tensor", wanted, edges[:4]),
        call("aten.isin.Tensor_Tensor", wanted, edges[:0], invert=True),
        call("aten.isin.Tensor_Scalar", wanted, 2, invert=True),
        call("aten.isin.Scalar_Tensor", 2, wanted),
    ]
    if dtype.is_floating_point:
        special = with_specials(dtype)
        calls += [
            call("aten.bucketize.Tensor", special, edges),
            call("aten.bucketize.Tensor", special, special[0].sort().values, right=True),
            call("aten.isin.Tensor_Tensor", special, special[:2]),
        ]
    compare_all(calls, ulps=0)


@functools.cache
def sort_of_six() -> Any:
    graph, _, _ = single_node_graph("aten.sort.stable", torch.zeros(6), stable=True)
    return jax.jit(function_of(resolve(graph, EAGER)))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=True) | st.sampled_from([0.0, -0.0, 1.0]), min_size=6, max_size=6))
def test_sort_orders_every_float(numbers: list[float]) -> None:
    x = torch.tensor(numbers)
    with jax.enable_x64(True):
        results = sort_of_six()(to_numpy(x))
    for got, want in zip(results, torch.sort(x, stable=True), strict=True):
        check("sort", np.asarray(got), want, ulps=0)


@pytest.mark.parametrize("op", ("aten._unique2.default", "aten.unique_consecutive.default"))
def test_results_of_unknown_size_are_refused(op: str) -> None:
    graph, tensors, _ = single_node_graph(op, values(6))
    with pytest.raises(UnsupportedError) as caught:
        run(graph, tensors)
    assert str(caught.value) == (
        f"{op} makes a result whose shape depends on values\n"
        "  --> <unknown>\n"
        "  values: float32[6]\n"
        "  why: XLA compiles a program for fixed shapes; the shape seen while capturing holds for that data only\n"
        "  help: sort, and mark where neighbours differ"
    )

"""Histograms and reductions of segments beside eager."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.twin import call, compare, compare_all
from truecast.numerics.numerics import Numerics

VALUES = torch.tensor([0.0, 1.0, 3.0, 3.0, 2.0, -1.0, 0.5, 4.0])
WEIGHT = torch.tensor([0.5, 2.0, 1.0, -1.0, 3.0, 0.25, 1.5, 4.0])


def test_histc_is_eagers() -> None:
    ranges = [(4, 0, 3), (5, 0, 0), (3, -1, 1)]
    calls = [call("aten.histc.default", VALUES, bins, low, high) for bins, low, high in ranges]
    compare_all([*calls, call("aten.histc.default", torch.full((4,), 2.0), 5, 0, 0)], ulps=0)


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_histc_finds_bins_and_counts_in_16_bits(dtype: torch.dtype, one_thread: None) -> None:
    """Eager does: neighbours of an edge move to the next bin, and a thread's count stops where 1 is half a unit."""
    many = (torch.randn(4096, generator=torch.Generator().manual_seed(0)) * 2).to(dtype)
    calls = [call("aten.histc.default", many, bins, *edges) for bins, edges in ((100, (0, 0)), (300, (-3, 2.7)))]
    calls.append(call("aten.histc.default", torch.ones(4096, dtype=dtype), 4, 0, 2))
    compare_all(calls, Numerics.preset("eager"), ulps=0)


def test_histograms_by_count_and_by_edges() -> None:
    points = torch.stack([VALUES, WEIGHT], 1)
    edges = torch.tensor([-1.0, 0.5, 1.0, 3.0])
    calls = [
        call("aten.histogram.bin_ct", VALUES, 4),
        call("aten.histogram.bin_ct", VALUES, 3, range=[0.0, 3.0], weight=WEIGHT, density=True),
        call("aten.histogram.bin_ct", torch.full((3,), 2.0), 2),
        call("aten.histogram.bin_ct", torch.zeros(0), 2),
        call("aten.histogram.bins_tensor", VALUES, edges, weight=WEIGHT),
        call("aten.histogram.bins_tensor", VALUES, edges, density=True),
        call("aten._histogramdd_bin_edges.default", points, [2, 3]),
        call("aten._histogramdd_from_bin_cts.default", points, [2, 3], range=[-1.0, 3.0, 0.0, 4.0], density=True),
        call("aten._histogramdd_from_bin_tensors.default", points, [edges, edges[:3]], weight=WEIGHT),
    ]
    compare_all(calls, ulps=2)


DATA = torch.tensor([3.0, 0.0, -2.0, 5.0, 5.0, 0.0, 0.0, 1.5, 7.0]).reshape(9, 1) * torch.tensor([1.0, -1.0])
LENGTHS = torch.tensor([2, 0, 3, 1, 2])  # the last row belongs to none
OFFSETS = torch.cat([torch.zeros(1, dtype=torch.int64), LENGTHS.cumsum(0)])


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce: str) -> None:
    calls = []
    for initial in (None, 2):
        options = {"unsafe": True, "initial": initial}
        calls.append(call("aten.segment_reduce.default", DATA, reduce, lengths=LENGTHS, **options))
        calls.append(call("aten.segment_reduce.default", DATA, reduce, offsets=OFFSETS, **options))
        batch = {"lengths": torch.stack([LENGTHS, LENGTHS.flip(0)]), "axis": 1}
        calls.append(call("aten.segment_reduce.default", torch.stack([DATA, DATA + 1]), reduce, **batch, **options))
        output = torch.segment_reduce(DATA, reduce, lengths=LENGTHS, unsafe=True, initial=initial)
        gradient = torch.arange(1.0, 11.0).reshape(5, 2)
        calls.append(
            call(
                "aten._segment_reduce_backward.default",
                gradient,
                output,
                DATA,
                reduce,
                lengths=LENGTHS,
                initial=1 if initial is None and reduce == "prod" else initial,
            )
        )
    compare_all(calls, ulps=2)


def test_the_gradient_of_a_gamma_draw() -> None:
    shapes = torch.tensor([0.3, 1.0, 2.5, 20.0, 300.0], dtype=torch.float64)
    draws = torch.tensor([0.2, 0.7, 3.0, 18.0, 310.0], dtype=torch.float64)
    # Eager interpolates between published approximations, good to 1e-4; XLA sums a series.
    compare("aten._standard_gamma_grad.default", shapes.float(), draws.float(), ulps=1024)

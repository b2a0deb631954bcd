"""Random draws: the distributions (moments, Kolmogorov-Smirnov), the supports, and what doesn't depend on chance.

Seeds are fixed, so a test passes always or never; the bounds are those at which chance alone would fail one run
in a thousand.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np
import pytest
import torch
from scipy import stats

from tests.twin import EAGER, Call, call, run, to_numpy, together
from truecast.lowering.emit import function_of
from truecast.numerics.plan import resolve

N = 20_000
P_VALUE = 1e-3


def draw_all(*calls: Call, seed: tuple[int, int] = (1, 2)) -> list[np.ndarray]:
    """What each call draws (its outputs one after another), all in one Graph; dtypes and shapes are eager's."""
    graph, tensors, wanted = together(calls)
    results = run(graph, tensors, seed=seed)
    for got, (one, _, want) in zip(results, wanted, strict=True):
        assert (str(got.dtype), got.shape) == (str(want.dtype).removeprefix("torch."), tuple(want.shape)), str(one)
    return results


def draw(op: str, *args: Any, **kwargs: Any) -> list[np.ndarray]:
    return draw_all(call(op, *args, **kwargs))


CONTINUOUS = [
    ("aten.rand.default", ([N],), stats.uniform()),
    ("aten.rand_like.default", (torch.empty(N),), stats.uniform()),
    ("aten.uniform.default", (torch.empty(N), -2.0, 3.0), stats.uniform(-2, 5)),
    ("aten.randn.default", ([N],), stats.norm()),
    ("aten.randn_like.default", (torch.empty(N, dtype=torch.float64),), stats.norm()),
    ("aten.normal_functional.default", (torch.empty(N), 2.0, 0.5), stats.norm(2, 0.5)),
    ("aten.normal.float_float", (2.0, 0.5, [N]), stats.norm(2, 0.5)),
    ("aten.normal.Tensor_float", (torch.full((N,), 2.0), 0.5), stats.norm(2, 0.5)),
    ("aten.normal.float_Tensor", (2.0, torch.full((N,), 0.5)), stats.norm(2, 0.5)),
    ("aten.normal.Tensor_Tensor", (torch.tensor(2.0), torch.full((N,), 0.5)), stats.norm(2, 0.5)),
    ("aten.log_normal.default", (torch.empty(N), 0.5, 0.75), stats.lognorm(0.75, scale=math.exp(0.5))),
    ("aten.exponential.default", (torch.empty(N), 2.0), stats.expon(scale=0.5)),
    ("aten.cauchy.default", (torch.empty(N), 1.0, 2.0), stats.cauchy(1, 2)),
    ("aten._standard_gamma.default", (torch.full((N,), 2.5),), stats.gamma(2.5)),
]


@functools.cache
def continuous_samples() -> list[np.ndarray]:
    return draw_all(*(call(op, *arguments) for op, arguments, _ in CONTINUOUS))


@pytest.mark.parametrize("index", range(len(CONTINUOUS)), ids=[c[0] for c in CONTINUOUS])
def test_continuous(index: int) -> None:
    sample, distribution = continuous_samples()[index], CONTINUOUS[index][2]
    assert stats.kstest(sample.astype(np.float64), distribution.cdf).pvalue > P_VALUE


def test_each_node_draws_its_own_bits() -> None:
    uniform, like, *_ = continuous_samples()
    assert abs(np.corrcoef(uniform, like)[0, 1]) < 4 / math.sqrt(N)


WEIGHTS = torch.tensor([1.0, 0.0, 3.0, 4.0])
COUNTS = [
    ("aten.randint.default", (7, [N]), lambda k: stats.randint(0, 7).pmf(k)),
    ("aten.randint.low", (-3, 5, [N]), lambda k: stats.randint(-3, 5).pmf(k)),
    ("aten.randint_like.default", (torch.empty(N), 4), lambda k: stats.randint(0, 4).pmf(k)),
    ("aten.randint_like.low_dtype", (torch.empty(N), 2, 4), lambda k: stats.randint(2, 4).pmf(k)),
    ("aten.random.from", (torch.empty(N), 2, 6), lambda k: stats.randint(2, 6).pmf(k)),
    ("aten.bernoulli.default", (torch.full((N,), 0.3),), lambda k: stats.bernoulli(0.3).pmf(k)),
    ("aten.bernoulli.p", (torch.empty(N, dtype=torch.int64), 0.3), lambda k: stats.bernoulli(0.3).pmf(k)),
    ("aten.bernoulli.Tensor", (torch.empty(N), torch.tensor(0.3)), lambda k: stats.bernoulli(0.3).pmf(k)),
    ("aten.geometric.default", (torch.empty(N), 0.4), lambda k: stats.geom(0.4).pmf(k)),
    ("aten.poisson.default", (torch.full((N,), 3.0),), lambda k: stats.poisson(3).pmf(k)),
    ("aten.binomial.default", (torch.full((N,), 6.0), torch.full((N,), 0.4)), lambda k: stats.binom(6, 0.4).pmf(k)),
    (
        "aten.multinomial.default",
        (torch.tensor([1.0, 0.0, 3.0, 4.0]), N, True),
        lambda k: [0.125, 0, 0.375, 0.5][int(k)],
    ),
]


@functools.cache
def count_samples() -> list[np.ndarray]:
    return draw_all(*(call(op, *arguments) for op, arguments, _ in COUNTS))


@pytest.mark.parametrize("index", range(len(COUNTS)), ids=[c[0] for c in COUNTS])
def test_counts(index: int) -> None:
    sample, mass = count_samples()[index], COUNTS[index][2]
    support = np.arange(sample.min(), sample.max() + 1)
    observed = np.array([(sample == k).sum() for k in support])
    expected = np.array([mass(k) for k in support]) * N
    assert observed.sum() == N, "a value that is not whole"
    assert not observed[expected == 0].any(), "a value of probability 0"
    common = expected > 5  # below that, chi-square says nothing
    assert expected[common].sum() > 0.99 * N, "part of the support was never drawn"
    scale = observed[common].sum() / expected[common].sum()
    assert stats.chisquare(observed[common], expected[common] * scale).pvalue > P_VALUE


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16, torch.float32, torch.float64), ids=str)
def test_uniform_never_rounds_up_to_one(dtype: torch.dtype) -> None:
    sample = draw("aten.rand.default", [200_000], dtype=dtype)[0].astype(np.float64)
    assert sample.min() >= 0 and sample.max() < 1
    if dtype is torch.bfloat16:
        assert sample.max() == 1 - 2.0**-8, "all 8 bits of a bfloat16's significand are drawn"


def test_complex_normal_has_unit_variance() -> None:
    sample = draw("aten.randn.default", [N], dtype=torch.complex64)[0]
    for part in (sample.real, sample.imag):
        assert stats.kstest(part.astype(np.float64), stats.norm(0, math.sqrt(0.5)).cdf).pvalue > P_VALUE
    assert abs(np.corrcoef(sample.real, sample.imag)[0, 1]) < 4 / math.sqrt(N)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float64), ids=str)
def test_dropout(dtype: torch.dtype) -> None:
    x = torch.linspace(1, 2, N).to(dtype)
    kept_values, mask = draw("aten.native_dropout.default", x, 0.25, True)
    assert abs(mask.mean() - 0.75) < 4 * math.sqrt(0.25 * 0.75 / N)
    wide = x if dtype is torch.float64 else x.float()
    expected = to_numpy((wide * (1 / 0.75)).to(dtype))
    np.testing.assert_array_equal(kept_values[mask], expected[mask])
    assert not kept_values[~mask].astype(bool).any()


def test_dropout_without_chance() -> None:
    x = torch.tensor([1.0, math.inf, -2.0])
    calls = [call("aten.native_dropout.default", x, p, train) for p, train in ((0.0, True), (0.5, False), (1.0, True))]
    *unchanged, values, mask = draw_all(*calls)
    for values_kept, all_kept in (unchanged[:2], unchanged[2:]):
        np.testing.assert_array_equal(values_kept, x.numpy())
        assert all_kept.all()
    np.testing.assert_array_equal(values, [0.0, math.nan, -0.0])  # 0 * infinity, as in eager
    assert not mask.any()


def test_permutation() -> None:
    graph, _, _ = together([call("aten.randperm.default", 500), call("aten.randperm.default", 3)])
    with jax.enable_x64(True):
        shuffle = jax.jit(function_of(resolve(graph, EAGER)))
        draws = [shuffle(np.array([7, i], np.uint32)) for i in range(300)]
    long, short = (np.array(column) for column in zip(*draws, strict=True))
    assert (np.sort(long, 1) == np.arange(500)).all()
    assert (long[0] != np.arange(500)).mean() > 0.9
    orders = np.unique(short, axis=0, return_counts=True)[1]
    assert len(orders) == 6 and stats.chisquare(orders).pvalue > P_VALUE


def test_choice_without_replacement() -> None:
    (chosen,) = draw("aten.multinomial.default", WEIGHTS.expand(N, 4).contiguous(), 3)
    assert all(sorted(row) == [0, 2, 3] for row in chosen)
    first = np.bincount(chosen[:, 0], minlength=4)
    assert stats.chisquare(first[[0, 2, 3]], np.array([1, 3, 4]) / 8 * N).pvalue > P_VALUE
    second = np.bincount(chosen[chosen[:, 0] == 3, 1], minlength=4)  # what is left weighs 1 and 3
    assert stats.chisquare(second[[0, 2]], np.array([1, 3]) / 4 * second.sum()).pvalue > P_VALUE


def test_full_range_integers() -> None:
    dtypes = (torch.int64, torch.int8, torch.uint8, torch.bool)
    *samples, wide = draw_all(
        *(call("aten.random.default", torch.empty(4000, dtype=dtype)) for dtype in dtypes),
        call("aten.random.from", torch.empty(4000, dtype=torch.int64), -(2**63), None),
    )
    for sample, dtype in zip(samples, dtypes, strict=True):
        top = 1 if dtype is torch.bool else torch.iinfo(dtype).max
        assert sample.min() >= 0 and abs(sample.astype(np.float64).mean() / top - 0.5) < 0.03
    assert abs((wide < 0).mean() - 0.5) < 0.04


def test_rrelu_draws_a_slope_for_each_negative_element() -> None:
    x = torch.linspace(-1, 1, N)
    y, noise = draw("aten.rrelu_with_noise_functional.default", x, torch.ones(N), 0.1, 0.3, True)
    negative = x.numpy() <= 0
    np.testing.assert_array_equal(y, x.numpy() * noise)
    assert (noise[~negative] == 1).all()
    assert stats.kstest(noise[negative], stats.uniform(0.1, 0.2).cdf).pvalue > P_VALUE


def test_empty_and_zero_dim_draws() -> None:
    draw_all(
        call("aten.rand.default", [0, 3]),
        call("aten.randn.default", []),
        call("aten.bernoulli.p", torch.empty(0), 0.5),
        call("aten.randperm.default", 0),
        call("aten.native_dropout.default", torch.empty(0), 0.5, True),
    )

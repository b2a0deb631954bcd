"""A metric that does not repeat itself gives no answer, or one that is called uncertain; never a guess."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import truecast as tc
from tests.bisecting.regressions import GOOD
from truecast.numerics.numerics import Numerics
from truecast.report.bisection import BisectionReport

BAD = Numerics("bad").with_rule(op="aten.exp.*", compute="float64").with_rule(op="aten.mul.*", compute="bfloat16")
X = torch.linspace(0.1, 2.0, 24)


def program(x: torch.Tensor) -> torch.Tensor:
    return (x * 1.2345).exp()


def bisected(noise: float, bound: float | None = None) -> BisectionReport:
    chance = random.Random(1)

    def metric(result: torch.Tensor, good: torch.Tensor) -> float:
        return (result - good).abs().max().item() + noise * chance.random()

    return tc.bisect(program, X, good=GOOD, bad=BAD, metric=metric, bound=bound)


def test_without_noise_the_answer_is_certain() -> None:
    found = bisected(0.0).bisection
    assert [part.nodes[0].op for part in found.parts] == ["aten.mul.Tensor"]
    assert not found.uncertain and 0.01 < found.bad < 0.1


def test_noise_as_large_as_the_difference_gives_no_answer() -> None:
    report = bisected(1.0)
    assert report.bisection.parts == ()
    assert report.bisection.uncertain.startswith("evaluations of one program differ by 0.")
    assert "no answer: the metric does not repeat itself well enough" in report.render()


def test_noise_around_the_bound_makes_the_answer_uncertain() -> None:
    found = bisected(0.002, bound=0.0023).bisection  # what is harmless has 0 to 0.002, and 0.0023 is no doubt yet
    assert not found.uncertain and [part.nodes[0].op for part in found.parts] == ["aten.mul.Tensor"]
    doubtful = bisected(0.002, bound=0.0017).bisection
    ending = ": 1 set of decisions lies on both sides of the bound"
    assert doubtful.uncertain.startswith("evaluations of one program differ by up to 0.001")
    assert doubtful.uncertain.endswith(ending)
    good = bisected(0.002, bound=0.0015).bisection
    assert good.parts == ()
    assert good.uncertain.startswith("the good policy's own values lie on both sides of the bound 0.0015, from 0.0")


def test_small_noise_far_from_the_bound_does_not_matter() -> None:
    found = bisected(1e-5, bound=0.005).bisection
    assert not found.uncertain and [part.nodes[0].op for part in found.parts] == ["aten.mul.Tensor"]


def dropped(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x * 1.2345, 0.5).exp()


@pytest.mark.parametrize(("seed", "uncertain"), [(None, True), (3, False)])
def test_a_random_program_needs_a_seed(seed: int | None, uncertain: bool) -> None:
    state = torch.get_rng_state()
    report: Any = tc.bisect(dropped, X, good=GOOD, bad=BAD, seed=seed)
    found = report.bisection
    assert bool(found.uncertain) is uncertain
    if uncertain:
        assert found.uncertain.startswith("the program draws random numbers and no seed is given")
        assert "UNCERTAIN  the program draws random numbers" in report.render()
    else:
        assert [part.nodes[0].op for part in found.parts] == ["aten.mul.Tensor"]
        assert torch.equal(torch.get_rng_state(), state)

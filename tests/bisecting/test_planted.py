"""Planted regressions are found exactly: every decision that a planted rule changed, and no other."""

from __future__ import annotations

import pytest

import truecast as tc
from tests.bisecting.regressions import BOUND, GOOD, HARMLESS, Regression, model, regression
from truecast.numerics.numerics import Numerics

SAMPLED = (7,)


def check(case: Regression) -> None:
    program, x = model()
    found = tc.bisect(program, x, good=GOOD, bad=case.bad, bound=BOUND, finest="module").bisection
    changes = found.mixture.changes
    expected = {index for index, change in enumerate(changes) if change.b in case.planted}
    assert len(expected) < len(changes), "harmless changes are there to be told apart"
    assert set(case.planted) == {changes[index].b for index in expected}
    assert set(found.found) == expected
    assert found.finished and not found.uncertain
    assert found.without <= BOUND / 2


@pytest.mark.parametrize("number", SAMPLED)
def test_planted_changes_are_found_exactly(number: int) -> None:
    check(regression(number))


@pytest.mark.slow
@pytest.mark.parametrize("number", [n for n in range(20) if n not in SAMPLED])
def test_every_planted_change_is_found_exactly(number: int) -> None:
    check(regression(number))


def test_harmless_changes_are_no_regression() -> None:
    program, x = model()
    report = tc.bisect(program, x, good=GOOD, bad=Numerics("bad", rules=HARMLESS), bound=BOUND)
    assert not report.bisection.regressed and report.bisection.parts == ()
    assert report.bisection.bad > 0

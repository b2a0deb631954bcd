"""Delta debugging: what it finds is minimal for any effect, and exactly what was planted where causes don't meet."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truecast.diagnose.bisect.delta import Budget, Chosen, OutOfBudget, Trials, grouped, minimal, sets
from truecast.errors import UsageError


def units(count: int) -> list[Chosen]:
    return [frozenset({index}) for index in range(count)]


def union(parts: tuple[Chosen, ...]) -> Chosen:
    return frozenset().union(*parts)


@st.composite
def planted(draw: st.DrawFn) -> tuple[int, list[frozenset[int]]]:
    """A number of units, and disjoint causes among them, each of one to three units."""
    count = draw(st.integers(1, 24))
    order = draw(st.permutations(range(count)))
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    ends = list(itertools.accumulate(sizes))
    causes = [frozenset(order[a:b]) for a, b in zip([0, *ends], ends, strict=False) if b <= count]
    return count, causes or [frozenset(order[:1])]


@given(planted())
def test_independent_causes_are_found_exactly(case: tuple[int, list[frozenset[int]]]) -> None:
    count, causes = case
    found = sets(units(count), lambda chosen: any(cause <= chosen for cause in causes))
    assert {union(group) for group in found} == set(causes)


@given(st.integers(1, 9), st.randoms(use_true_random=False))
def test_what_is_found_is_minimal_whatever_the_effect_is(count: int, chance: random.Random) -> None:
    verdicts: dict[Chosen, bool] = {frozenset(): False, frozenset(range(count)): True}

    def passes(chosen: Chosen) -> bool:
        return verdicts.setdefault(chosen, chance.random() < 0.5)

    kept = minimal(units(count), passes)
    assert passes(union(kept))
    assert not any(passes(union(kept) - unit) for unit in kept)
    for group in sets(units(count), passes):
        assert passes(union(group)) and not any(passes(union(group) - unit) for unit in group)


@given(st.sets(st.integers(0, 99), min_size=1, max_size=3))
def test_few_causes_among_many_units_take_few_tests(causes: set[int]) -> None:
    asked: list[Chosen] = []

    def carries(chosen: Chosen) -> bool:
        asked.append(chosen)
        return bool(chosen & causes)

    sets(units(100), carries)
    assert len(set(asked)) <= 16 * len(causes)


def test_units_are_taken_as_a_whole_and_early_ones_are_preferred() -> None:
    blocks = grouped(range(6), lambda index: index // 2)
    assert blocks == [frozenset({0, 1}), frozenset({2, 3}), frozenset({4, 5})]
    assert sets(blocks, lambda chosen: 3 in chosen) == [(frozenset({2, 3}),)]
    assert minimal(units(5), lambda chosen: len(chosen) >= 2) == (frozenset({0}), frozenset({1}))


def trials(values: list[float], **options: object) -> Trials:
    queue = iter(values)
    return Trials(lambda chosen: next(queue), lambda chosen: str(sorted(chosen)), **options)  # type: ignore[arg-type]


def test_each_set_is_measured_once_and_its_key_is_what_is_remembered() -> None:
    same = Trials(lambda chosen: float(len(chosen)), lambda chosen: "one program", {"one program": [7.0]})
    assert same.value(frozenset({1, 2})) == 7.0 and same.runs == 0
    counted = trials([3.0, 4.0])
    assert [counted.value(frozenset({1})), counted.value(frozenset({1})), counted.value(frozenset())] == [3.0, 3.0, 4.0]
    assert counted.runs == 2


def test_a_value_that_is_no_number_is_the_worst_one() -> None:
    assert trials([float("nan")]).exceeds(frozenset(), 1e300)


def test_values_on_both_sides_of_the_bound_are_a_doubt() -> None:
    noisy = trials([0.9, 1.1, 1.2, 2.0, 2.1, 2.2], repeats=3)
    assert noisy.exceeds(frozenset(), 1.0) and noisy.doubts == {frozenset()}
    assert noisy.exceeds(frozenset({1}), 1.0) and noisy.doubts == {frozenset()}
    assert noisy.spread(frozenset({1}), 3) == pytest.approx(0.2)


def test_a_budget_ends_a_search() -> None:
    limited = trials([1.0, 2.0, 3.0], budget=Budget(runs=2))
    limited.value(frozenset())
    limited.value(frozenset({1}))
    with pytest.raises(OutOfBudget):
        limited.value(frozenset({2}))
    assert limited.value(frozenset()) == 1.0  # what is known costs nothing
    with pytest.raises(OutOfBudget):
        trials([1.0], budget=Budget(seconds=0.0)).value(frozenset())


@pytest.mark.parametrize(
    ("text", "budget"),
    [("90s", Budget(90.0)), ("1.5m", Budget(90.0)), ("40runs", Budget(runs=40)), ("1 run", Budget(runs=1))],
)
def test_a_budget_is_time_or_runs(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget
    assert Budget.parse(None) == Budget()


@pytest.mark.parametrize("text", ["40", "2h", "1.5runs", "-3s", ""])
def test_anything_else_is_no_budget(text: str) -> None:
    with pytest.raises(UsageError) as error:
        Budget.parse(text)
    assert error.value.what == f"{text!r} is no budget"
    assert error.value.help == "seconds, minutes or a number of evaluations: 90s, 5m, 40runs"

"""Delta debugging: the smallest sets of changes that carry an effect, and the smallest that take it away.

Pure: knows neither Graph nor Plan. A set of changes is a frozenset of indices; `evaluate` gives its value, and larger
is worse. Each set is measured once and remembered under the name that `key` gives it, so that a search that was
interrupted goes on where it stopped. Everything is tried in the order of the indices: same values, same answer.

`sets` takes for granted that more changes make more of an effect only in what it tries first. Where that is not so,
what comes out still carries the effect, and still is minimal: no unit of it can be left out.
"""

from __future__ import annotations

import math
import re
import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from truecast.errors import UsageError

Chosen = frozenset[int]
Test = Callable[[Chosen], bool]


class OutOfBudget(Exception):
    """The next evaluation would go beyond the budget."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a search may cost: seconds from its beginning, or runs; None for no limit."""

    seconds: float | None = None
    runs: int | None = None

    @staticmethod
    def parse(text: str | None) -> Budget:
        """ "90s", "5m" or "40runs". Raises UsageError for anything else."""
        if text is None:
            return Budget()
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|runs?)\s*", text)
        if found is None or (found[2].startswith("run") and "." in found[1]):
            raise UsageError(
                f"{text!r} is no budget", help="seconds, minutes or a number of evaluations: 90s, 5m, 40runs"
            )
        if found[2].startswith("run"):
            return Budget(runs=int(found[1]))
        return Budget(seconds=float(found[1]) * (60 if found[2] == "m" else 1))


@dataclass
class Trials:
    """The values of sets of changes, each measured `repeats` times, within a budget.

    known: what was measured before, by key; what is measured goes there too, and `note` is called with each.
    doubts: the sets whose values lie on both sides of the bound they were asked about.
    """

    evaluate: Callable[[Chosen], float]
    key: Callable[[Chosen], str]
    known: dict[str, list[float]] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    note: Callable[[float], None] = lambda value: None
    repeats: int = 1
    runs: int = 0
    doubts: set[Chosen] = field(default_factory=set)
    started: float = field(default_factory=time.monotonic)

    def values(self, chosen: Chosen, repeats: int = 0) -> tuple[float, ...]:
        """Every value measured of a set, at least `repeats`. Raises OutOfBudget."""
        found = self.known.setdefault(self.key(chosen), [])
        while len(found) < max(repeats, self.repeats):
            self._require_budget()
            value = self.evaluate(chosen)
            found.append(math.inf if math.isnan(value) else value)
            self.runs += 1
            self.note(found[-1])
        return tuple(found)

    def value(self, chosen: Chosen) -> float:
        """The value of a set: the median of what was measured."""
        return statistics.median(self.values(chosen))

    def exceeds(self, chosen: Chosen, bound: float) -> bool:
        """Whether a set's value is above the bound; where the measured values disagree, their median decides, and the
        set is noted among the doubts."""
        values = self.values(chosen)
        if len({value > bound for value in values}) == 2:
            self.doubts.add(chosen)
        return statistics.median(values) > bound

    def spread(self, chosen: Chosen, repeats: int) -> float:
        """By how much the values of one set differ from each other."""
        values = self.values(chosen, repeats)
        return 0.0 if len(set(values)) == 1 else max(values) - min(values)

    def _require_budget(self) -> None:
        if self.budget.runs is not None and self.runs >= self.budget.runs:
            raise OutOfBudget
        if self.budget.seconds is not None and time.monotonic() - self.started >= self.budget.seconds:
            raise OutOfBudget


def sets(units: Sequence[Chosen], carries: Test) -> list[tuple[Chosen, ...]]:
    """Minimal sets of units that carry the effect, until what is left of all the units does not.

    A unit is a set of changes that is taken as a whole. Each set is minimal by itself: without any one of its units it
    does not carry the effect.
    """
    found = _halved(units, carries)
    while True:
        taken = {unit for group in found for unit in group}
        rest = [unit for unit in units if unit not in taken]
        if not rest or not carries(_union(rest)):
            return found
        found.append(minimal(rest, carries))


def _halved(units: Sequence[Chosen], carries: Test) -> list[tuple[Chosen, ...]]:
    """The sets that are found by halving: k single units among n in about 2 k log2(n / k) tests."""
    if not units or not carries(_union(units)):
        return []
    if len(units) == 1:
        return [tuple(units)]
    middle = len(units) // 2
    found = [*_halved(units[:middle], carries), *_halved(units[middle:], carries)]
    return found or [minimal(units, carries)]  # neither half carries it alone: it takes units of both


def minimal(units: Sequence[Chosen], passes: Test) -> tuple[Chosen, ...]:
    """A minimal selection of units whose union passes a test that all of them pass; earlier units are preferred.

    Divides and conquers: k units of n in about k log2 n tests. Whatever passes and fails, each step keeps that the
    background and what was chosen pass together; that no unit can be left out is then made sure of one at a time, since
    more units may fail what fewer pass.
    """
    chosen = _divided([], False, list(units), passes)
    index = len(chosen) - 1
    while index >= 0:
        without = chosen[:index] + chosen[index + 1 :]
        if passes(_union(without)):
            chosen, index = without, len(without)  # what was needed beside it may not be needed without it
        index -= 1
    return tuple(unit for unit in units if unit in chosen)


def _divided(background: list[Chosen], grown: bool, units: list[Chosen], passes: Test) -> list[Chosen]:
    if grown and passes(_union(background)):
        return []
    if len(units) == 1:
        return units
    middle = len(units) // 2
    left, right = units[:middle], units[middle:]
    from_right = _divided(background + left, True, right, passes)
    from_left = _divided(background + from_right, bool(from_right), left, passes)
    return from_left + from_right


def grouped(changes: Iterable[int], label: Callable[[int], Hashable]) -> list[Chosen]:
    """The changes that have one label each, in the order of their first."""
    groups: dict[Hashable, set[int]] = {}
    for index in sorted(changes):
        groups.setdefault(label(index), set()).add(index)
    return [frozenset(group) for group in groups.values()]


def _union(units: Iterable[Chosen]) -> Chosen:
    return frozenset().union(*units)

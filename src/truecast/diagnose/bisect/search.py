"""Which of the decisions that differ between two Plans carry a regression, and which of them to put back.

Reads graph and numerics; measures through `Trials`, so it knows neither what runs a Plan nor what is measured. The
search goes from coarse to fine: rules, then operations, then source lines (then modules, where asked for): each level
looks only among what the one before has found.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from truecast.diagnose.bisect.delta import Chosen, OutOfBudget, Trials, grouped, minimal, sets
from truecast.errors import UsageError
from truecast.graph import Node
from truecast.numerics.mixing import Change, Mixture
from truecast.numerics.numerics import Rule

Level = Literal["rule", "op", "line", "module"]
LEVELS: tuple[Level, ...] = get_args(Level)

# The share of the difference between good and bad that is left alone where no bound is given.
DEFAULT_SHARE = 0.1
# How often the two ends are measured, to see whether the metric repeats itself; and every set, where it does not.
ENDS, NOISY = 3, 5


@dataclass(frozen=True)
class Part:
    """Decisions that one rule makes of one operation on one source line (as fine as the search went).

    share: what they explain of the difference, alone with those of the same cause; relieved: what goes away of it when
    only these are put back; nan where the budget ended before. Parts of one `cause` exceed the bound only together.
    """

    changes: tuple[Change, ...]
    nodes: tuple[Node, ...]
    said: tuple[str, ...]
    cause: int
    share: float
    relieved: float

    @property
    def rules(self) -> tuple[Rule | None, Rule | None]:
        """The rules of good and of bad that decide here."""
        return self.changes[0].a, self.changes[0].b


@dataclass(frozen=True)
class Bisection:
    """What a search found. good, bad: the metric's value under either policy; bound: what counts as a regression.

    parts: what carries it, in program order; without: the value when all of them are put back, nan if not measured.
    found: the same as indices of the mixture's changes. finished: False where the budget ended the search: `parts` is
    then the smallest set known so far. uncertain: why the result may not be trusted, "" if it may.
    direction: "carry" for the decisions that carry the regression, "promote" for those that must be put back.
    """

    mixture: Mixture
    metric: str
    direction: Literal["carry", "promote"]
    good: float
    bad: float
    bound: float
    parts: tuple[Part, ...] = ()
    found: Chosen = frozenset()
    without: float = math.nan
    runs: int = 0
    finished: bool = True
    uncertain: str = ""

    @property
    def regressed(self) -> bool:
        """Whether bad is beyond the bound at all."""
        return self.bad > self.bound


@dataclass
class _Search:
    mixture: Mixture
    trials: Trials
    bound: float
    universe: Chosen
    finest: Level
    groups: list[tuple[Chosen, ...]]

    def exceeds(self, chosen: Chosen) -> bool:
        return self.trials.exceeds(chosen, self.bound)

    def carry(self) -> None:
        """Narrows each of `groups` to what in it carries the regression, level by level."""
        for level in self.levels():
            for group in self.groups[:]:
                units = grouped(_all([group]), partial(self.label, level))
                if len(units) > len(group):
                    at = self.groups.index(group)
                    self.groups[at : at + 1] = sets(units, self.exceeds)

    def promote(self) -> None:
        """Narrows `groups` to what must be put back, level by level; the heaviest come first, and stay."""
        for level in self.levels():
            units = grouped(_all(self.groups), partial(self.label, level))
            if len(units) > len(self.groups):
                weights = {unit: self.trials.value(unit) for unit in units}
                units.sort(key=lambda unit: (-weights[unit], min(unit)))
                kept = minimal(units, lambda chosen: not self.exceeds(self.universe - chosen))
                self.groups = [(unit,) for unit in sorted(kept, key=min)]

    def levels(self) -> tuple[Level, ...]:
        return LEVELS[: LEVELS.index(self.finest) + 1]

    def label(self, level: Level, index: int) -> Hashable:
        """What the changes of one unit of a level have in common."""
        change = self.mixture.changes[index]
        if change.node < 0:
            return change.fields
        node = self.mixture.graph.nodes[change.node]
        site = node.site
        whole = ((change.a, change.b), node.op, (site.file, site.line, site.phase), site.module)
        return whole[: LEVELS.index(level) + 1]


def bisect(
    mixture: Mixture,
    trials: Trials,
    *,
    metric: str,
    bound: float | None = None,
    direction: Literal["carry", "promote"] = "carry",
    finest: Level = "line",
) -> Bisection:
    """The smallest set of changes that carries the regression from policy a to policy b of a mixture, or, with
    direction "promote", the smallest to put back so that the value comes to the bound or under it.

    bound: None for a tenth of the way from good to bad. Raises UsageError for a bound that good itself exceeds.
    """
    if finest not in LEVELS:
        raise UsageError(f"there is no level {finest!r}", help=f"one of {', '.join(LEVELS)}")
    everything = frozenset(range(len(mixture.changes)))
    result = Bisection(mixture, metric, direction, math.nan, math.nan, math.nan)
    try:
        noise = max(trials.spread(frozenset(), ENDS), trials.spread(everything, ENDS))
        if noise:
            trials.repeats = NOISY
        good, bad = trials.value(frozenset()), trials.value(everything)
    except OutOfBudget:
        return replace(result, runs=trials.runs, finished=False)
    if bound is not None and (lowest := min(trials.values(frozenset()))) <= bound < good:
        reason = f"the good policy's own values lie on both sides of the bound {bound:.3g}, from {lowest:.3g}"
        return replace(result, good=good, bad=bad, bound=bound, runs=trials.runs, uncertain=reason)
    if math.isinf(good):
        raise UsageError(
            f"the metric {metric} is not a number under the good policy",
            help="there is nothing to compare a regression with",
        )
    limit = _bound(good, bad, bound)
    result = replace(result, good=good, bad=bad, bound=limit, runs=trials.runs)
    if noise and bad - good <= 2 * noise:
        reason = f"evaluations of one program differ by {noise:.3g}, good and bad by {bad - good:.3g}"
        return replace(result, uncertain=reason)
    if not bad > limit:
        return result
    search = _Search(mixture, trials, limit, everything, finest, [(everything,)])
    finished = True
    try:
        if direction == "carry":
            search.carry()
        else:
            search.promote()
    except OutOfBudget:
        finished = False
    found = _all(search.groups)
    result = replace(
        result,
        parts=_parts(search, good, bad),
        found=found,
        without=_measured(trials, everything - found),
        runs=trials.runs,
        finished=finished,
    )
    return replace(result, runs=trials.runs, uncertain=_doubts(trials, noise))


def _bound(good: float, bad: float, bound: float | None) -> float:
    if bound is None:
        return good + DEFAULT_SHARE * max(bad - good, 0.0) if math.isfinite(bad) else good + max(abs(good), 1.0)
    if math.isnan(bound):
        raise UsageError("the bound is not a number", values=f"{bound}")
    if good > bound:
        raise UsageError(
            "the good policy itself exceeds the bound",
            values=f"{good:.6g} under the good policy, bound {bound:.6g}",
            help="no set of decisions brings the value below that: choose a larger bound or another good policy",
        )
    return bound


def _doubts(trials: Trials, noise: float) -> str:
    if not trials.doubts:
        return ""
    count = len(trials.doubts)
    sets = "1 set of decisions lies" if count == 1 else f"{count} sets of decisions lie"
    return f"evaluations of one program differ by up to {noise:.3g}: {sets} on both sides of the bound"


def _parts(search: _Search, good: float, bad: float) -> tuple[Part, ...]:
    everything, trials = search.universe, search.trials
    parts = []
    for number, group in enumerate(search.groups, 1):
        share = _share(_measured(trials, _all([group])), good, bad)
        for unit in group:
            changes = tuple(search.mixture.changes[i] for i in sorted(unit))
            left = _measured(trials, everything - unit)
            nodes = tuple(search.mixture.graph.nodes[c.node] for c in changes if c.node >= 0)
            said = tuple(dict.fromkeys(words for c in changes for words in _said(search.mixture, c)))
            parts.append((min(unit), Part(changes, nodes, said, number, share, 1 - _share(left, good, bad))))
    return tuple(part for _, part in sorted(parts, key=lambda entry: entry[0]))


def _measured(trials: Trials, chosen: Chosen) -> float:
    """The value of a set; nan where the budget does not allow it."""
    try:
        return trials.value(chosen)
    except OutOfBudget:
        return math.nan


def _share(value: float, good: float, bad: float) -> float:
    if math.isinf(bad):
        return 1.0 if math.isinf(value) else math.nan if math.isnan(value) else 0.0
    return (value - good) / (bad - good)


def _said(mixture: Mixture, change: Change) -> list[str]:
    """Each field of a change as "compute float32 -> bfloat16"."""
    a, b = (mixture.a, mixture.b) if change.node < 0 else mixture.decisions(change)
    return [f"{name} {_word(getattr(a, name))} -> {_word(getattr(b, name))}" for name in change.fields]


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{program} as {device}" for program, device in value) or "none"
    return "none" if value in (None, "") else str(value)


def _all(groups: list[tuple[Chosen, ...]]) -> Chosen:
    return frozenset().union(*(unit for group in groups for unit in group))

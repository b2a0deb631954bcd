"""Whether a program has become worse than its baseline: the figures that a gate holds, and their comparison.

Plain data. A line is known by its file, function, text and operation, not by its number, so that an edit above it
changes nothing. What counts as worse: more conversions, or more bytes of them; sums held in 16 bits; arithmetic or sums
in a dtype with fewer bits than before; a larger error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from truecast import dtypes
from truecast.sites import Site

# What is counted, for a line and for the whole program: all of them costs or dangers, fewer is better.
Counted = Literal["converts", "bytes", "narrow_sums", "float64"]
COUNTED: tuple[Counted, ...] = ("converts", "bytes", "narrow_sums", "float64")
DTYPES = ("compute", "accumulate")


@dataclass(frozen=True, slots=True)
class Line:
    """One operation on one source line. operations: how many nodes that compute; compute, accumulate: their
    narrowest dtype, "" for none; rule: what decided it. site, rule_at: where line and rule stand; not in a baseline.
    """

    file: str
    function: str
    text: str
    op: str
    operations: int = 1
    compute: str = ""
    accumulate: str = ""
    rule: str = ""
    converts: int = 0
    bytes: int = 0
    narrow_sums: int = 0
    float64: int = 0
    site: Site | None = field(default=None, compare=False)
    rule_at: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.file, self.function, self.text, self.op

    @property
    def place(self) -> str:
        """ "train.py:12 in Model.forward"; without its number where only the baseline knows it."""
        at = f"{self.file}:{self.site.line}" if self.site is not None else self.file or "no source line"
        return f"{at} in {self.function}" if self.function else at


@dataclass(frozen=True, slots=True)
class Drift:
    """The error of the results: the norm of their difference from the reference over that of the reference, the
    largest of any result. honest: the same where each operation is computed exactly and rounded once."""

    reference: str
    rounding: str
    error: float
    honest: float


@dataclass(frozen=True)
class Figures:
    """What a gate holds of a program under a policy. plan: a digest of all decisions."""

    program: str
    numerics: str
    plan: str
    lines: tuple[Line, ...]
    drift: Drift | None = None

    def total(self, name: Counted) -> int:
        return sum(getattr(line, name) for line in self.lines)


@dataclass(frozen=True, slots=True)
class Worse:
    """One way in which the program is worse. line: where; None for the drift. was: the line in the baseline, None for
    a line that it does not have."""

    what: str
    before: str | int | float
    after: str | int | float
    line: Line | None = None
    was: Line | None = None


@dataclass(frozen=True)
class Verdict:
    """before: the baseline. better: totals that are smaller now. allowed: how many times larger the error may be."""

    before: Figures
    now: Figures
    allowed: float
    worse: tuple[Worse, ...]

    @property
    def better(self) -> tuple[tuple[str, int, int], ...]:
        pairs = ((name, self.before.total(name), self.now.total(name)) for name in COUNTED)
        return tuple((name, before, now) for name, before, now in pairs if now < before)

    @property
    def plan_changed(self) -> bool:
        return self.before.plan != self.now.plan


def judge(before: Figures, now: Figures, slack: float) -> Verdict:
    """What is worse now. slack: by which share the error may grow: 0.1 allows 1.1 times the baseline's."""
    return Verdict(before, now, 1 + slack, (*_drift(before, now, 1 + slack), *_lines(before, now)))


def merged(lines: list[Line]) -> tuple[Line, ...]:
    """One line for each key, in the order of the keys: what is counted is added up, the narrowest dtype stands."""
    found: dict[tuple[str, str, str, str], Line] = {}
    for line in lines:
        known = found.get(line.key)
        found[line.key] = line if known is None else _joined(known, line)
    return tuple(found[key] for key in sorted(found))


def _joined(a: Line, b: Line) -> Line:
    narrower = _narrower(a.compute, b.compute) or _narrower(a.accumulate, b.accumulate)
    narrowest = b if narrower or not a.rule else a
    return replace(
        a,
        operations=a.operations + b.operations,
        compute=b.compute if _narrower(a.compute, b.compute) or not a.compute else a.compute,
        accumulate=b.accumulate if _narrower(a.accumulate, b.accumulate) or not a.accumulate else a.accumulate,
        rule=narrowest.rule,
        rule_at=narrowest.rule_at,
        converts=a.converts + b.converts,
        bytes=a.bytes + b.bytes,
        narrow_sums=a.narrow_sums + b.narrow_sums,
        float64=a.float64 + b.float64,
    )


def _drift(before: Figures, now: Figures, allowed: float) -> Iterator[Worse]:
    if before.drift is not None and now.drift is not None and not now.drift.error <= before.drift.error * allowed:
        yield Worse("drift", before.drift.error, now.drift.error)


def _lines(before: Figures, now: Figures) -> Iterator[Worse]:
    """A line that the baseline has is compared with itself; one that it does not have counts where the total is
    larger, so that a line which was only rewritten is no worse."""
    known = {line.key: line for line in before.lines}
    larger = {name for name in COUNTED if now.total(name) > before.total(name)}
    for line in now.lines:
        was = known.get(line.key)
        for name in DTYPES:
            if was is not None and _narrower(getattr(was, name), getattr(line, name)):
                yield Worse(name, getattr(was, name), getattr(line, name), line, was)
        for name in COUNTED:
            count, old = getattr(line, name), 0 if was is None else getattr(was, name)
            if count > old and (was is not None or name in larger):
                yield Worse(name, old, count, line, was)


def _narrower(before: str, after: str) -> bool:
    """Whether `after` has fewer bits in its significand, or in its exponent, than `before`."""
    if not before or not after or before == after:
        return False
    a, b = dtypes.of(before), dtypes.of(after)
    if not a.is_inexact or not b.is_inexact:
        return False
    return b.mantissa_bits < a.mantissa_bits or b.exponent_bits < a.exponent_bits

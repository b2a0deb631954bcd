"""What a bisection found, with the ways to show it: text for a person, JSON for a program."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from truecast.diagnose.bisect.search import Bisection, Part
from truecast.numerics.numerics import Numerics, Rule
from truecast.sites import Site

SCHEMA = 1
_MOST_MODULES = 3


@dataclass(frozen=True)
class Cost:
    """What promoting decisions costs. operations: how many are computed otherwise; converts and nbytes: how many
    conversions the lowered program has more, and of how many bytes; seconds: a call before and after."""

    operations: int
    converts: int
    nbytes: int
    seconds: tuple[float, float]


@dataclass(frozen=True)
class BisectionReport:
    """rounding: what stood for the roundings that a policy leaves to the compiler, "" where none does.

    numerics: for the reverse search, the policy that promotes the found decisions; exact: whether it decides exactly
    them; cost: what it costs.
    """

    bisection: Bisection
    rounding: str = ""
    numerics: Numerics | None = None
    exact: bool = True
    cost: Cost | None = None

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        """What a person reads."""
        return "\n".join(line.rstrip() for line in _lines(self)) + "\n"

    def to_json(self) -> str:
        """What a program reads: schema 1."""
        return json.dumps(_document(self), indent=2, ensure_ascii=False) + "\n"


def _lines(report: BisectionReport) -> Iterator[str]:
    found = report.bisection
    a, b = found.mixture.a.name, found.mixture.b.name
    nodes = {c.node for c in found.mixture.changes if c.node >= 0}
    yield f"bisect {found.mixture.graph.name!r}: good {a}, bad {b}, metric {found.metric}"
    yield f"  good       {_number(found.good)}"
    yield f"  bad        {_number(found.bad)}"
    yield f"  bound      {_number(found.bound)}"
    yield f"  decisions  {_count(len(nodes), 'operation')} of {len(found.mixture.graph.nodes)} decided differently"
    if report.rounding:
        yield f'  rounding   what a policy leaves to the compiler is rounded as "{report.rounding}" says (law N3)'
    yield f"  runs       {found.runs}"
    if not found.finished:
        yield "  stopped    by the budget: what follows is the smallest set known so far"
    if found.uncertain:
        yield f"  UNCERTAIN  {found.uncertain}"
    yield ""
    if not found.parts:
        yield _nothing(found)
        return
    yield _verdict(found)
    for rules, parts in _by_rules(found.parts):
        yield ""
        yield from _rules(rules)
        for part in parts:
            yield from _part(part, len(found.parts) > 1, _together(part, found.parts))
    if report.numerics is not None and report.cost is not None:
        yield from _promoted(report, report.numerics, report.cost)


def _nothing(found: Bisection) -> str:
    if not found.finished:
        return "the budget ended before good and bad were measured"
    if found.uncertain:
        return "no answer: the metric does not repeat itself well enough to tell one policy from the other"
    return "no regression: bad is not above the bound"


def _verdict(found: Bisection) -> str:
    count = len({c.node for part in found.parts for c in part.changes if c.node >= 0})
    what = _count(count, "operation") if count else "a setting of the whole program"
    if found.direction == "promote":
        return f"promote {what}: the value is then {_number(found.without)}"
    carry, those = ("carry", "them") if count > 1 else ("carries", "it")
    return f"{what} {carry} it; without {those}: {_number(found.without)}"


def _by_rules(parts: tuple[Part, ...]) -> list[tuple[tuple[Rule | None, Rule | None], list[Part]]]:
    groups: dict[tuple[Rule | None, Rule | None], list[Part]] = {}
    for part in parts:
        groups.setdefault(part.rules, []).append(part)
    return list(groups.items())


def _rules(rules: tuple[Rule | None, Rule | None]) -> Iterator[str]:
    if rules == (None, None):
        return
    for label, rule in zip(("good", "bad"), rules, strict=True):
        yield f"{label:<4} {'the default' if rule is None else rule}"
        if rule is not None and rule.note:
            yield f"       {rule.note}"


def _part(part: Part, several: bool, together: bool) -> Iterator[str]:
    said = ", ".join(part.said)
    if not part.nodes:
        yield f"  {said}"
        yield f"      {_shares(part, several, together)}"
        return
    ops = dict.fromkeys(node.op for node in part.nodes)
    sites = dict.fromkeys((n.site.file, n.site.line) for n in part.nodes)
    yield f"  {', '.join(ops)}  {said}"
    for file, line in sites:
        site = next(n.site for n in part.nodes if (n.site.file, n.site.line) == (file, line))
        yield f"    {_place(site)}{_modules(part, site)}"
        if site.text.strip():
            yield f"      | {site.text.strip()}"
    yield f"      {_shares(part, several, together)}"


def _shares(part: Part, several: bool, together: bool) -> str:
    words = [f"explains {_percent(part.share)} of the difference"]
    if together:
        words[0] += f" together with the other{'s' * (together > 1)} marked ({part.cause})"
    if several and part.relieved < 0:
        words.append(f"put back alone, it adds {_percent(-part.relieved)}: effects cancel each other")
    elif several:
        words.append(f"put back alone, it takes {_percent(part.relieved)} away")
    return "; ".join(words)


def _together(part: Part, parts: tuple[Part, ...]) -> bool:
    return sum(other.cause == part.cause for other in parts) > 1


def _modules(part: Part, site: Site) -> str:
    modules = list(
        dict.fromkeys(
            n.site.module for n in part.nodes if (n.site.file, n.site.line) == (site.file, site.line) and n.site.module
        )
    )
    times = sum((n.site.file, n.site.line) == (site.file, site.line) for n in part.nodes)
    shown = ", ".join(modules[:_MOST_MODULES]) + (
        f" and {len(modules) - _MOST_MODULES} more" if len(modules) > _MOST_MODULES else ""
    )
    words = f"  in {shown}" if modules else ""
    words += f"  ({times} operations)" if times > 1 else ""
    return words + ("" if site.phase == "forward" else f"  ({site.phase})")


def _place(site: Site) -> str:
    if not site.file:
        return "no source line"
    return f"{os.path.basename(site.file)}:{site.line}"


def _promoted(report: BisectionReport, numerics: Numerics, cost: Cost) -> Iterator[str]:
    before, after = cost.seconds
    yield ""
    yield (
        f"cost: {_count(cost.operations, 'operation')}, {cost.converts:+d} converts, {cost.nbytes:+d} bytes converted, "
        f"{1e3 * before:.2f} -> {1e3 * after:.2f} ms a call"
    )
    if not report.exact:
        yield "the policy below promotes more than these: its rules can't tell some operations apart"
    yield ""
    yield from numerics.to_toml().splitlines()


def _number(value: float) -> str:
    return "not measured" if math.isnan(value) else f"{value:.4g}"


def _percent(share: float) -> str:
    return "an unknown part" if math.isnan(share) else f"{100 * share:.0f}%"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _document(report: BisectionReport) -> dict[str, Any]:
    found = report.bisection
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "program": found.mixture.graph.name,
        "good": found.mixture.a.name,
        "bad": found.mixture.b.name,
        "metric": found.metric,
        "direction": found.direction,
        "rounding": report.rounding,
        "values": {
            "good": _plain(found.good),
            "bad": _plain(found.bad),
            "bound": _plain(found.bound),
            "without": _plain(found.without),
        },
        "runs": found.runs,
        "finished": found.finished,
        "uncertain": found.uncertain,
        "regressed": found.regressed,
        "parts": [_part_document(part) for part in found.parts],
    }
    if report.numerics is not None and report.cost is not None:
        document["promotion"] = {
            "numerics": report.numerics.to_toml(),
            "exact": report.exact,
            "operations": report.cost.operations,
            "converts": report.cost.converts,
            "bytes": report.cost.nbytes,
            "seconds": list(report.cost.seconds),
        }
    return document


def _part_document(part: Part) -> dict[str, Any]:
    good, bad = part.rules
    return {
        "cause": part.cause,
        "good_rule": None if good is None else str(good),
        "bad_rule": None if bad is None else str(bad),
        "decisions": list(part.said),
        "share": _plain(part.share),
        "relieved": _plain(part.relieved),
        "nodes": [
            {"name": n.name, "op": n.op, "file": n.site.file, "line": n.site.line, "module": n.site.module}
            for n in part.nodes
        ],
    }


def _plain(value: float) -> float | str | None:
    """A number that JSON has; infinity as text, not measured as null."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value)

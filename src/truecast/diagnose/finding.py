"""A finding: one thing that a person should know, as data. It is printed by report/, never where it is found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from truecast.sites import Site

Severity = Literal["error", "warning", "info"]
Role = Literal["symptom", "origin", "related"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
FAMILIES = {
    "1": "contracts",
    "2": "widening",
    "3": "narrowing",
    "4": "autocast",
    "5": "state",
    "6": "effective",
    "7": "migration",
}


# Line, column, end line, end column: as in Site, from 1, in characters, the end exclusive.
Span = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """A source position in a finding. text: what stands beside the carets; note: a second line under it."""

    role: Role
    site: Site
    text: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cast:
    """A call of a method, `to(torch.float32)`, to be put behind the expression of this span."""

    file: str
    span: Span
    method: str


@dataclass(frozen=True, slots=True)
class Edit:
    """A cast that would mend a finding, and the lines of its expression as they would read, from `line` on."""

    file: str
    line: int
    text: str
    cast: Cast


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, however often it was met: `count` times. The symptom stands first among the places."""

    code: str
    severity: Severity
    message: str
    places: tuple[Place, ...]
    why: str
    help: str
    edit: Edit | None = None
    count: int = 1

    @property
    def family(self) -> str:
        return FAMILIES[self.code[2]]

    @property
    def cause(self) -> tuple[object, ...]:
        """What two findings share that are one: code, message and the origin's position, the symptom's without one."""
        origins = [p for p in self.places if p.role == "origin"] or self.places[:1]
        return (self.code, self.message, *map(_position, origins))


def by_message(findings: Iterable[Finding]) -> Iterator[Finding]:
    """One finding per message, where the cause is a list or a rule and not a line: the other lines are related."""
    found: dict[str, Finding] = {}
    for finding in findings:
        first = found.setdefault(finding.message, finding)
        if first is finding:
            continue
        place = replace(finding.places[0], role="related")
        shown = {_position(p)[:2] for p in first.places}
        places = first.places if _position(place)[:2] in shown else (*first.places, place)
        found[finding.message] = replace(first, places=places, count=first.count + finding.count)
    yield from found.values()


def _position(place: Place) -> tuple[str, int, int]:
    return place.site.file, place.site.line, place.site.column


def grouped(findings: list[Finding]) -> tuple[Finding, ...]:
    """One finding per cause, in order of severity, then of appearance; the other lines where it shows are related."""
    found: dict[tuple[object, ...], Finding] = {}
    shown: dict[tuple[object, ...], set[tuple[str, int, int]]] = {}
    for finding in findings:
        first = found.get(finding.cause)
        symptom = finding.places[0]
        if first is None:
            found[finding.cause] = finding
            shown[finding.cause] = {_position(symptom)}
            continue
        places = first.places
        if _position(symptom) not in shown[finding.cause]:
            shown[finding.cause].add(_position(symptom))
            places = (*places, replace(symptom, role="related"))
        found[finding.cause] = replace(first, count=first.count + finding.count, places=places)
    return tuple(sorted(found.values(), key=lambda f: -SEVERITIES.index(f.severity)))

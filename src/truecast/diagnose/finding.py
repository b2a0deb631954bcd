"""A finding: one thing that a person should know, as data. It is printed by report/, never where it is found."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Place:
    """A source position in a finding. text: what stands beside the carets; note: a second line under it."""

    role: Role
    site: Site
    text: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one source line that would mend a finding: the whole line as it would read."""

    file: str
    line: int
    text: str


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
        """What two findings share that are one: code, message and source positions, whatever the module or phase."""
        return (self.code, self.message, *((p.role, p.site.file, p.site.line, p.site.column) for p in self.places))


def grouped(findings: list[Finding]) -> tuple[Finding, ...]:
    """One finding per cause, in order of severity, then of appearance."""
    found: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        first = found.get(finding.cause)
        found[finding.cause] = finding if first is None else replace(first, count=first.count + finding.count)
    return tuple(sorted(found.values(), key=lambda f: -SEVERITIES.index(f.severity)))

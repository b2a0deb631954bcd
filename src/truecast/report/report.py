"""The findings about one program, with the ways to show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from truecast.diagnose.finding import SEVERITIES, Finding, Severity
from truecast.report import json as json_report
from truecast.report import text


@dataclass(frozen=True)
class Report:
    """findings: one per cause, errors first. operations: how many were recorded. stopped: why the program did not run
    to its end, "" if it did."""

    findings: tuple[Finding, ...]
    operations: int = 0
    stopped: str = ""

    def render(self, width: int = 0, color: bool = False) -> str:
        """What a person reads. width: 0 for unlimited."""
        return text.render(self.findings, self.operations, self.stopped, width, color)

    def to_json(self) -> str:
        """What a program reads: schema 1."""
        return json_report.render(self.findings, self.operations, self.stopped)

    def __str__(self) -> str:
        return self.render()

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of this severity and above."""
        least = SEVERITIES.index(severity)
        return tuple(f for f in self.findings if SEVERITIES.index(f.severity) >= least)

    def only(self, select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Report:
        """The findings whose code starts with one of `select` (all without any) and with none of `ignore`."""
        chosen, without = tuple(select) or ("",), tuple(ignore)
        kept = tuple(f for f in self.findings if f.code.startswith(chosen) and not f.code.startswith(without))
        return replace(self, findings=kept)

"""The findings about one program, with the ways to show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from truecast.diagnose.finding import SEVERITIES, Finding, Severity
from truecast.diagnose.flow import Flow
from truecast.diagnose.migration import Line
from truecast.report import baseline, migrated, sarif, text
from truecast.report import json as json_report


@dataclass(frozen=True)
class Report:
    """findings: one per cause, errors first. operations: how many were recorded. stopped: why the program did not run
    to its end, "" if it did. set_aside: how many findings a comment or a baseline set aside. flow: what the picture of
    an HTML report is drawn from. migrated_from: the environment variable that the program is compared with, "" for
    none; lines: what computes differently."""

    findings: tuple[Finding, ...]
    operations: int = 0
    stopped: str = ""
    set_aside: int = 0
    flow: Flow | None = field(default=None, repr=False, compare=False)
    migrated_from: str = ""
    lines: tuple[Line, ...] = ()

    def render(self, width: int = 0, color: bool = False) -> str:
        """What a person reads. width: 0 for unlimited."""
        table = migrated.render(self.migrated_from, self.lines, width) if self.migrated_from else ""
        return text.render(self.findings, self.operations, self.stopped, width, color, self.set_aside, table)

    def to_json(self) -> str:
        """What a program reads: schema 1."""
        more = {"migration": migrated.document(self.migrated_from, self.lines)} if self.migrated_from else {}
        return json_report.render(self.findings, self.operations, self.stopped, self.set_aside, more)

    def to_html(self, title: str = "truecast explain") -> str:
        """What a browser shows: one self-contained page, with a picture of the dtype flow through the modules."""
        from truecast.report import html  # templates: only who asks for a page pays for loading them

        moved = migrated.document(self.migrated_from, self.lines) if self.migrated_from else None
        return html.render(self.findings, self.operations, self.stopped, self.set_aside, self.flow, title, moved)

    def to_sarif(self) -> str:
        """What code-review tools read: SARIF 2.1.0."""
        return sarif.render(self.findings)

    def to_baseline(self) -> str:
        """A file for `beyond`: these findings are known."""
        return baseline.write(self.findings)

    def beyond(self, path: Path) -> Report:
        """Without the findings that a baseline file knows."""
        known = baseline.read(path)
        new = tuple(f for f in self.findings if baseline.key(f) not in known)
        return replace(self, findings=new, set_aside=self.set_aside + len(self.findings) - len(new))

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

"""An audit, and the difference of two, with the ways to show them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from truecast.diagnose.audit.diff import AuditDiff, Change, diff
from truecast.diagnose.audit.result import Audit, Row
from truecast.diagnose.hlo.module import Problem
from truecast.report import audit_text
from truecast.report.page import page, rendered

SCHEMA = 1


@dataclass(frozen=True)
class AuditReport:
    """What a program does with precision: `audit` is the data, `counts` the figures that a gate holds."""

    audit: Audit

    @property
    def rows(self) -> tuple[Row, ...]:
        """One for each kind of event at each place."""
        return self.audit.rows

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The lines of the text that could not be read."""
        return self.audit.problems

    def counts(self) -> dict[str, int]:
        """The figures, always the same names in the same order."""
        return self.audit.counts()

    def diff(self, other: AuditReport) -> AuditDiffReport:
        """What `other` does otherwise: this one is before, `other` after."""
        return AuditDiffReport(diff(self.audit, other.audit))

    def render(self, width: int = 0, color: bool = False) -> str:
        """What a person reads. width: 0 for unlimited."""
        return audit_text.render(self.audit, width, color)

    def to_json(self) -> str:
        """What a program reads: schema 1."""
        return json.dumps({"schema": SCHEMA, "audit": _audit(self.audit)}, indent=2, ensure_ascii=False)

    def to_html(self) -> str:
        """A page that a browser opens without a network."""
        figures = [(audit_text.FIGURES[n], v) for n, v in self.counts().items() if n in audit_text.FIGURES]
        body = rendered("audit.html", audit=self.audit, figures=figures, lines=self.audit.by_line(), text=audit_text)
        return page(f"Audit of {self.audit.title}", body)

    def __str__(self) -> str:
        return self.render()


@dataclass(frozen=True)
class AuditDiffReport:
    """What one program does with precision otherwise than another: `difference` is the data."""

    difference: AuditDiff

    @property
    def changes(self) -> tuple[Change, ...]:
        """One for each operation, line and kind of event that differs."""
        return self.difference.changes

    def render(self, width: int = 0, color: bool = False) -> str:
        """What a person reads. width: 0 for unlimited."""
        return audit_text.render_diff(self.difference, width, color)

    def to_json(self) -> str:
        """What a program reads: schema 1."""
        found = self.difference
        document = {
            "schema": SCHEMA,
            "before": {"title": found.before.title, "counts": found.before.counts()},
            "after": {"title": found.after.title, "counts": found.after.counts()},
            "changes": [_change(change) for change in found.changes],
        }
        return json.dumps(document, indent=2, ensure_ascii=False)

    def to_html(self) -> str:
        """A page that a browser opens without a network."""
        found = self.difference
        figures = [(audit_text.FIGURES[n], *v) for n, v in found.counts().items() if n in audit_text.FIGURES]
        body = rendered("audit_diff.html", difference=found, figures=figures, text=audit_text)
        return page(f"Audit: {found.before.title} and {found.after.title}", body)

    def __str__(self) -> str:
        return self.render()


def _audit(audit: Audit) -> dict[str, Any]:
    return {
        "title": audit.title,
        "language": audit.language,
        "counts": audit.counts(),
        "rows": [_row(row) for row in audit.rows],
        "problems": [{"line": p.line, "column": p.column, "what": p.what} for p in audit.problems],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "operation": row.operation,
        "source": row.source,
        "result": row.result,
        "accumulate": row.accumulate,
        "op": row.op,
        "file": row.file,
        "line": row.line,
        "column": row.column,
        "function": row.function,
        "asked": row.asked,
        "rule": row.rule,
        "why": row.why,
        "count": row.count,
        "bytes": row.nbytes,
        "nodes": list(row.nodes),
        "text_lines": list(row.text_lines),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "op": change.op,
        "file": change.file,
        "line": change.line,
        "before": change.before,
        "after": change.after,
        "bytes_before": change.bytes_before,
        "bytes_after": change.bytes_after,
        "nodes": change.nodes,
        "casts_lost": change.casts_lost,
        "events": [
            {"event": e.text, "before": e.before, "after": e.after, "rules": list(e.rules)} for e in change.events
        ],
    }

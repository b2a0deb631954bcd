"""A report as one HTML page: the findings with their source, and a picture of the dtype flow through the modules."""

from __future__ import annotations

import json
import linecache
from dataclasses import asdict
from typing import Any

from markupsafe import Markup

from truecast.diagnose.explained import amount
from truecast.diagnose.finding import Edit, Finding, Place
from truecast.diagnose.flow import Flow
from truecast.report import text
from truecast.report.module_flow import Picture, pictures
from truecast.report.page import page, rendered, text_of

_AROUND = 2  # lines of source shown before and after an expression
_MOST_PLACES = 8  # per finding, besides the symptom
_MOST_ROWS = 300  # of the table that says what the picture does


def render(
    findings: tuple[Finding, ...],
    operations: int,
    stopped: str,
    set_aside: int,
    flow: Flow | None,
    title: str,
    migration: dict[str, Any] | None = None,
) -> str:
    """The whole page. flow: what the picture is drawn from; without it there is none. migration: the lines that compute
    differently without a global downcast (migrated.py's document)."""
    shown = pictures(flow, findings) if flow is not None else ()
    marked = {number for picture in shown for box in picture.boxes for number in box.findings}
    body = rendered(
        "explain.html",
        summary=text.summary(findings, operations, stopped, set_aside),
        findings=[_finding(finding, number in marked) for number, finding in enumerate(findings)],
        phases=[picture.phase for picture in shown],
        dtypes=sorted({dtype for picture in shown for box in picture.boxes for dtype, _ in box.nbytes}),
        left_out=sum(picture.left_out for picture in shown),
        rows=[row for picture in shown for row in _rows(picture)][:_MOST_ROWS],
        data=_data(shown, findings),
        migration=migration,
    )
    return page(title, body, style=text_of("flow.css"), script=text_of("flow.js") if shown else "")


def _data(shown: tuple[Picture, ...], findings: tuple[Finding, ...]) -> Markup:
    document = {
        "phases": [asdict(picture) for picture in shown],
        "findings": [{"code": f.code, "severity": f.severity, "message": f.message} for f in findings],
    }
    # A script element ends at "</", whatever stands around it.
    return Markup(json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))


def _finding(finding: Finding, in_picture: bool) -> dict[str, Any]:
    first, *rest = finding.places
    rest, more = rest[:_MOST_PLACES], rest[_MOST_PLACES:]
    removed, added = _edit(finding.edit)
    return {
        "code": finding.code,
        "severity": finding.severity,
        "family": finding.family,
        "message": finding.message,
        "count": finding.count,
        "where": text.position(first.site),
        "places": [_place(place) for place in (first, *rest)],
        "more": ", ".join(text.position(place.site) for place in more),
        "why": finding.why,
        "help": finding.help,
        "removed": removed,
        "added": added,
        "in_picture": in_picture,
    }


def _edit(edit: Edit | None) -> tuple[list[str], list[str]]:
    if edit is None:
        return [], []
    added = edit.text.splitlines()
    removed = [linecache.getline(edit.file, edit.line + n).rstrip("\n") for n in range(len(added))]
    changed = [n for n, (old, new) in enumerate(zip(removed, added, strict=True)) if old != new]
    return removed[changed[0] : changed[-1] + 1], added[changed[0] : changed[-1] + 1]


def _place(place: Place) -> dict[str, Any]:
    site = place.site
    inside = f" in {site.function}" if site.function and site.function != "<module>" else ""
    module = f", module {site.module}" if site.module else ""
    return {
        "role": place.role,
        "position": text.position(site),
        "context": f"{inside}{module} ({site.phase})",
        "lines": _lines(place),
        "said": place.text,
        "note": place.note,
    }


def _lines(place: Place) -> list[dict[str, Any]]:
    """The source around a place, with carets under its expression; [] where it can't be read."""
    site = place.site
    if not site.text:
        return []
    first, last = max(site.line - _AROUND, 1), site.line + _AROUND
    lines = [(number, linecache.getline(site.file, number).rstrip("\n")) for number in range(first, last + 1)]
    while lines and not lines[-1][1].strip() and lines[-1][0] > site.line:
        lines.pop()
    while lines and not lines[0][1].strip() and lines[0][0] < site.line:
        lines.pop(0)
    start, end = text.span(site)
    return [
        {
            "number": number,
            "text": source,
            "lead": "".join("\t" if c == "\t" else " " for c in source[:start]),
            "carets": "^" * max(end - start, 1) if number == site.line else "",
        }
        for number, source in lines
    ]


def _rows(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "phase": picture.phase,
            "path": box.path or "program",
            "stands_for": box.stands_for,
            "operations": box.operations,
            "dtypes": ", ".join(f"{dtype} {amount(n)}" for dtype, n in box.nbytes),
            "changes": "; ".join(
                f"{change.before} → {change.after} at {change.where}, {change.times} times" for change in box.changes
            ),
        }
        for box in picture.boxes
    ]

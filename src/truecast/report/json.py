"""A report as JSON, schema 1: a program that reads it finds the same keys in every later version of schema 1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from truecast.diagnose.finding import SEVERITIES, Finding, Place

SCHEMA = 1


def render(
    findings: tuple[Finding, ...],
    operations: int,
    stopped: str,
    set_aside: int = 0,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """The report as one JSON object, indented. more: what a kind of report has besides."""
    return json.dumps({**document(findings, operations, stopped, set_aside), **more}, indent=2, ensure_ascii=False)


def document(findings: tuple[Finding, ...], operations: int, stopped: str, set_aside: int = 0) -> dict[str, Any]:
    """The report as plain dicts and lists."""
    summary: dict[str, Any] = {s: sum(f.severity == s for f in findings) for s in reversed(SEVERITIES)}
    return {
        "schema": SCHEMA,
        "findings": [_finding(f) for f in findings],
        "summary": {**summary, "operations": operations, "stopped": stopped, "set_aside": set_aside},
    }


def _finding(finding: Finding) -> dict[str, Any]:
    described: dict[str, Any] = {
        "code": finding.code,
        "family": finding.family,
        "severity": finding.severity,
        "message": finding.message,
        "count": finding.count,
        "sites": [_site(place) for place in finding.places],
        "why": finding.why,
        "help": finding.help,
    }
    if finding.edit is not None:
        described["edit"] = {"file": finding.edit.file, "line": finding.edit.line, "text": finding.edit.text}
    return described


def _site(place: Place) -> dict[str, Any]:
    site = place.site
    return {
        "role": place.role,
        "file": site.file,
        "line": site.line,
        "column": site.column,
        "end_column": site.end_column,
        "text": place.text,
        "note": place.note,
        "function": site.function,
        "module": site.module,
        "phase": site.phase,
    }

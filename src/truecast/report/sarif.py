"""A report as SARIF 2.1.0, which code-review tools show beside the lines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from truecast.diagnose.finding import Finding, Place
from truecast.sites import Site

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(findings: tuple[Finding, ...]) -> str:
    """The report as one SARIF log with one run."""
    rules = sorted({(f.code, f.family) for f in findings})
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "truecast",
                        "rules": [{"id": code, "properties": {"family": family}} for code, family in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(f) for f in findings],
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False)


def _result(finding: Finding) -> dict[str, Any]:
    first, *rest = finding.places
    described: dict[str, Any] = {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message}. {finding.why}. {finding.help}"},
        "locations": [_location(first)] if first.site.file else [],
        "occurrenceCount": finding.count,
    }
    related = [_location(place) | {"id": i} for i, place in enumerate(rest, 1) if place.site.file]
    if related:
        described["relatedLocations"] = related
    return described


def _location(place: Place) -> dict[str, Any]:
    said = ". ".join(text for text in (place.text, place.note) if text)
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": _uri(place.site)}, "region": _region(place.site)}
    }
    if said:
        location["message"] = {"text": f"{place.role}: {said}"}
    return location


def _uri(site: Site) -> str:
    relative = os.path.relpath(site.file) if os.path.isabs(site.file) else site.file
    if relative.startswith(".."):
        return Path(site.file).as_uri()
    return Path(relative).as_posix()


def _region(site: Site) -> dict[str, int]:
    region = {"startLine": max(site.line, 1)}
    if site.column:
        region["startColumn"] = site.column
    if site.end_column:
        region |= {"endLine": site.end_line, "endColumn": site.end_column}
    return region

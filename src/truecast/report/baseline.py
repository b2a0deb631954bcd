"""A baseline: the findings that a code base has already, so that only new ones count.

A finding is known by its code, its message, and file and text of the lines of its symptom and origin: not by line
numbers, which any edit above moves.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from truecast.diagnose.finding import Finding
from truecast.errors import UsageError

_VERSION = 1


def key(finding: Finding) -> list[Any]:
    """What identifies a finding across edits elsewhere."""
    lines = [[os.path.basename(p.site.file), p.site.text.strip()] for p in finding.places if p.role != "related"]
    return [finding.code, finding.message, *lines]


def write(findings: tuple[Finding, ...]) -> str:
    """The baseline file that knows `findings`."""
    return json.dumps({"baseline": _VERSION, "findings": [key(f) for f in findings]}, indent=2, ensure_ascii=False)


def read(path: Path) -> list[list[Any]]:
    """The keys in a baseline file. Raises UsageError for a file that is missing or no baseline."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError("can't read the baseline", where=path, why=error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise UsageError("this is no baseline file", where=path, why=str(error)) from error
    found = document.get("findings") if isinstance(document, dict) and document.get("baseline") == _VERSION else None
    if not isinstance(found, list) or not all(isinstance(known, list) for known in found):
        raise UsageError("this is no baseline file", where=path, help="truecast explain --write-baseline F makes one")
    return found

"""Findings that the program's own comments set aside: `# truecast: ignore[TC201] reason`, on the line of a finding's
symptom or origin. A code may be given by its beginning; several are separated by commas."""

from __future__ import annotations

import re

from truecast.diagnose.finding import Finding

_COMMENT = re.compile(r"#\s*truecast:\s*ignore\[([^\]]*)\]")


def is_ignored(finding: Finding) -> bool:
    """Whether a comment at the finding's symptom or origin names its code."""
    for place in finding.places:
        if place.role == "related":
            continue
        for codes in _COMMENT.findall(place.site.text):
            if any(finding.code.startswith(code.strip()) for code in codes.split(",") if code.strip()):
                return True
    return False

"""Why a sample that differs from eager does, where the difference stays: docs/status.md prints the reason beside it.

By operator, or by operator and column. An elementwise operator or a reduction may not stand here: there a wrong
value is a bug.
"""

from __future__ import annotations

REASONS: dict[str, str] = {}


def reason(operator: str, column: str) -> str:
    return REASONS.get(f"{operator} {column}") or REASONS.get(operator) or "not explained yet"

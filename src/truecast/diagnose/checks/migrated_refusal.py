"""TC702: operands that a global downcast held in one dtype, and that an operation refuses without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from truecast.diagnose.checks import contracts
from truecast.diagnose.finding import Finding
from truecast.diagnose.migration import Migration
from truecast.observations import Refusal

CODE = "TC702"


def check(migration: Migration) -> Iterator[Finding]:
    """Each refusal; one that the flag did not hide keeps the code of its contract."""
    for refusal, finding in contracts.refused(migration.flow):
        yield _hidden(migration, refusal, finding) if was_hidden(migration, refusal) else finding


def was_hidden(migration: Migration, refusal: Refusal) -> bool:
    """Whether the device held the operands in one dtype."""
    held = {migration.held(value.dtype) for _, value in refusal.operands}
    return len(refusal.operands) > 1 and len(held) == 1


def _hidden(migration: Migration, refusal: Refusal, finding: Finding) -> Finding:
    dtypes = dict.fromkeys(value.dtype for _, value in refusal.operands)
    held = " and ".join(f"{d} as {migration.held(d)}" for d in dtypes if migration.held(d) is not d)
    return replace(
        finding,
        code=CODE,
        message=f"{finding.message}, which {migration.variable}=1 hid",
        why=f"{finding.why}; under {migration.variable}=1 the device held {held} (law N11), so they agreed",
    )

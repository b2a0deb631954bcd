"""The checks: one function per file family, each yields findings about a Flow. `run` calls them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from truecast.diagnose.checks import contracts
from truecast.diagnose.finding import Finding, grouped
from truecast.diagnose.flow import Flow

Check = Callable[[Flow], Iterator[Finding]]
CHECKS: tuple[Check, ...] = (contracts.check,)


def run(flow: Flow) -> tuple[Finding, ...]:
    """Every finding about what was recorded, one per cause."""
    return grouped([finding for check in CHECKS for finding in check(flow)])

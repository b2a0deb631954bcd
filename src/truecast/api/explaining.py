"""`explain` and `recording`: composes capture, diagnose and report. It needs no jax: it observes programs
on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from truecast.capture import observer
from truecast.diagnose import checks
from truecast.diagnose.flow import Flow
from truecast.diagnose.ignored import is_ignored
from truecast.diagnose.migration import Migration
from truecast.errors import TruecastError
from truecast.graph import Graph
from truecast.numerics import scope
from truecast.observations import Observations
from truecast.report.report import Report


def explain(program: Callable[..., Any], *args: Any, **kwargs: Any) -> Report:
    """Where the dtypes of one call of a function or nn.Module come from, and what will break because of them.

    The call runs on fake tensors and leaves the program as it was. An operation that refuses its operands' dtypes is
    reported, and the call goes on with casts. If the program raises, the report says so and holds what was found.
    What depends on a policy (sums in 16 bits, rules without effect) is told of the one in force, if one was chosen.
    """
    seen = observer.observe(program, args, kwargs)
    stopped = "" if seen.error is None else _stopped(seen.error)
    return _report(seen.graph, seen.observations, seen.operations, stopped)


class Recording:
    """What a `recording()` block ran: its Graph, what was seen beside it, and the findings about it."""

    def __init__(self, tape: observer.ObservingTape) -> None:
        self._tape = tape

    @property
    def graph(self) -> Graph:
        """The Graph of what ran so far."""
        return self._tape.recorded("recording")

    @property
    def operations(self) -> int:
        """How many operations were recorded so far."""
        return self._tape.operations

    def explain(self, stopped: str = "", *, numerics: scope.Policy | None = None, migrate: str = "") -> Report:
        """The findings so far. numerics: the policy that the program is to run under; None for the one in force.
        migrate: what moving away from a global downcast ("xla-use-bf16", "xla-downcast-bf16") changes, instead."""
        return _report(self.graph, self._tape.observations, self._tape.operations, stopped, numerics, migrate)


@contextmanager
def recording(*, fake: bool = False) -> Iterator[Recording]:
    """Records what the block runs, on any device; the program runs as it would without, but an operation that refuses
    its operands' dtypes is noted and goes on with casts. fake: on fake tensors, without memory for their contents."""
    with observer.observed(fake=fake) as tape:
        yield Recording(tape)


def _report(
    graph: Graph,
    observations: Observations,
    operations: int,
    stopped: str,
    numerics: scope.Policy | None = None,
    migrate: str = "",
) -> Report:
    flow = Flow(graph, observations, scope.chosen(numerics))
    migration = Migration(flow, migrate) if migrate else None
    found = checks.run(flow) if migration is None else checks.run_migration(migration)
    kept = tuple(f for f in found if not is_ignored(f))
    report = Report(kept, operations, stopped, len(found) - len(kept), flow)
    if migration is None:
        return report
    return replace(report, migrated_from=migration.variable, lines=migration.lines)


def _stopped(error: BaseException) -> str:
    if isinstance(error, TruecastError):
        at = f" at {error.where}" if error.where is not None else ""
        return f"the program stopped{at}: {error.what}"
    first = str(error).splitlines()[0] if str(error) else ""
    return f"the program stopped: {type(error).__name__}{': ' * bool(first)}{first}"

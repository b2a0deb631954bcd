"""The casts that mend findings, as changed files and a unified diff. Nothing is written here.

Refused operands get the cheapest set of casts (cut.py); another finding gets the cast that its check proposes.
"""

from __future__ import annotations

import difflib
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from truecast.diagnose import checks
from truecast.diagnose.explained import amount
from truecast.diagnose.finding import Cast, Finding, Span
from truecast.diagnose.fix.cut import PlannedCast, planned
from truecast.diagnose.fix.rewriting import is_the_users, parsed
from truecast.diagnose.flow import Flow


@dataclass(frozen=True, slots=True)
class FileFix:
    """One file before and after, what its casts cost, and the findings that they mend."""

    path: Path
    before: bytes
    after: bytes
    encoding: str
    costs: tuple[str, ...]
    mends: tuple[Finding, ...]

    def diff(self) -> str:
        """What the casts cost, in comments, and the change as a unified diff; paths are relative to this folder."""
        name = os.path.relpath(self.path)
        name = str(self.path).lstrip("/") if name.startswith("..") else name
        old, new = (text.decode(self.encoding).splitlines(keepends=True) for text in (self.before, self.after))
        lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
        ended = [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
        return "".join([*(f"# {name}:{cost}\n" for cost in self.costs), *ended])


def fixes(findings: Iterable[Finding], flow: Flow) -> tuple[tuple[FileFix, ...], tuple[Finding, ...]]:
    """The files to change, and the findings that no cast mends. Of two casts of one expression the first is made: the
    other finding is looked at again after it."""
    findings = list(findings)
    refused = [f for f in findings if f.family == "contracts"]
    casts, left = planned(flow, refused)
    chosen: dict[str, dict[Span, tuple[Cast, str, tuple[Finding, ...]]]] = defaultdict(dict)
    for plan in casts:
        chosen[plan.cast.file][plan.cast.span] = (plan.cast, _cost(plan), plan.mends)
    for finding in findings:
        if finding in refused:
            continue
        cast = None if finding.edit is None else finding.edit.cast
        if cast is None or not is_the_users(cast.file):
            left.append(finding)
            continue
        known = chosen[cast.file].get(cast.span)
        if known is not None and known[0] != cast:
            left.append(finding)
        else:
            _, cost, mended = known or (cast, "", ())
            chosen[cast.file][cast.span] = (cast, cost, (*mended, finding))
    files = [_changed(file, list(spans.values())) for file, spans in chosen.items() if spans]
    return tuple(files), tuple(f for f in findings if f in left)


def hidden(flow: Flow) -> tuple[Finding, ...]:
    """What would be found if nothing had been refused: a refusal keeps some remarks about its line to itself."""
    observations = replace(flow.observations, refusals=())
    return checks.run(Flow(flow.graph, observations, flow.numerics))


def _cost(plan: PlannedCast) -> str:
    times = "once" if plan.times == 1 else f"{plan.times} times"
    mended = len(plan.mends)
    return (
        f"{plan.cast.span[0]}: casts {plan.before} to {plan.after} {times}, moves {amount(plan.nbytes)}, "
        f"mends {mended} finding{'s' * (mended != 1)}"
    )


def _changed(file: str, casts: list[tuple[Cast, str, tuple[Finding, ...]]]) -> FileFix:
    known = parsed(file)
    assert known is not None, "a cast was planned in a file that can be read"
    mends = dict.fromkeys(id(f) for _, _, mended in casts for f in mended)
    by_id = {id(f): f for _, _, mended in casts for f in mended}
    return FileFix(
        Path(file),
        known.module.bytes,
        known.with_casts({cast.span: cast.method for cast, _, _ in casts}),
        known.module.encoding,
        tuple(cost for _, cost, _ in sorted(casts, key=lambda c: c[0].span) if cost),
        tuple(by_id[i] for i in mends),
    )

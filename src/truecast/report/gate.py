"""What a gate says, as a person reads it: what is worse, on which line, by which rule; what is better."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.gate import COUNTED, Drift, Verdict, Worse

_NAMES = {
    "converts": "converts",
    "bytes": "bytes converted",
    "narrow_sums": "sums in 16 bits",
    "compute": "compute",
    "accumulate": "accumulate",
    "drift": "drift",
}


def render(verdict: Verdict, baseline: str) -> str:
    """The verdict in words. baseline: the file's name."""
    return "\n".join(line.rstrip() for line in _lines(verdict, baseline)) + "\n"


def _lines(verdict: Verdict, baseline: str) -> Iterator[str]:
    before, now = verdict.before, verdict.now
    policy = f"under {now.numerics}" + ("" if now.numerics == before.numerics else f" (baseline: {before.numerics})")
    if not verdict.worse:
        yield f"gate {now.program!r} {policy}: no worse than {baseline}"
    else:
        ways = f"{len(verdict.worse)} way{'s' * (len(verdict.worse) != 1)}"
        yield f"gate {now.program!r} {policy}: WORSE than {baseline} in {ways}"
    for worse in verdict.worse:
        yield ""
        yield from _worse(worse, verdict)
    notes = list(_notes(verdict))
    if notes:
        yield ""
        yield from notes
    if verdict.worse:
        yield ""
        yield "help: mend it, or accept it with --update and review the difference of the baseline"


def _worse(worse: Worse, verdict: Verdict) -> Iterator[str]:
    name = _NAMES[worse.what]
    line, was = worse.line, worse.was
    if line is None:
        assert verdict.before.drift is not None and verdict.now.drift is not None
        yield f"{name}  {_drift(verdict.before.drift)} -> {_drift(verdict.now.drift)}"
        yield f"  the error against {verdict.now.drift.reference} may be {verdict.allowed:.4g} times the baseline's"
        return
    yield f"{name}  {worse.before} -> {worse.after}  {line.op}" + _times(line.operations)
    yield f"  {line.place}"
    if line.text:
        yield f"    | {line.text}"
    if line.rule:
        yield f"  rule: {line.rule}"
    if was is None:
        yield "  a line that the baseline does not have"
    elif was.rule != line.rule:
        yield f"  was:  {was.rule or 'no rule'}"


def _notes(verdict: Verdict) -> Iterator[str]:
    for name, before, now in verdict.better:
        yield f"better: {_NAMES[name]} {before} -> {now}"
    before, now = verdict.before.drift, verdict.now.drift
    if before is not None and now is not None and now.error < before.error:
        yield f"better: drift {_drift(before)} -> {_drift(now)}"
    if verdict.plan_changed and not verdict.worse:
        yield "the Plan is another one than the baseline's: --update takes it over"


def _drift(drift: Drift) -> str:
    if not drift.honest:
        return f"{drift.error:.3g}"
    return f"{drift.error:.3g} ({drift.error / drift.honest:.2f} times honest rounding)"


def _times(operations: int) -> str:
    return f"  ({operations} operations)" if operations > 1 else ""


def totals(verdict: Verdict) -> dict[str, tuple[int, int]]:
    """Each counted figure, in the baseline and now."""
    return {name: (verdict.before.total(name), verdict.now.total(name)) for name in COUNTED}

"""What a gate says, as a person reads it: what is worse, on which line, by which rule; what is better."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.gate.figures import Drift, Line, Verdict, Worse

_NAMES = {
    "converts": "converts",
    "bytes": "bytes converted",
    "narrow_sums": "sums in 16 bits",
    "float64": "float64",
    "compute": "compute",
    "accumulate": "accumulate",
}


def render(verdict: Verdict, baseline: str) -> str:
    """The verdict in words. baseline: the file's name."""
    return "\n".join(line.rstrip() for line in _lines(verdict, baseline)) + "\n"


def _lines(verdict: Verdict, baseline: str) -> Iterator[str]:
    before, now = verdict.before, verdict.now
    policy = f"under {now.numerics}" + ("" if now.numerics == before.numerics else f" (baseline: {before.numerics})")
    places: dict[Line | None, list[Worse]] = {}
    for worse in verdict.worse:
        places.setdefault(worse.line, []).append(worse)
    if not places:
        yield f"gate {now.program!r} {policy}: no worse than {baseline}"
    else:
        yield f"gate {now.program!r} {policy}: WORSE than {baseline}"
    for line, ways in places.items():
        yield ""
        yield from _drifted(verdict) if line is None else _line(line, ways)
    notes = list(_notes(verdict))
    if notes:
        yield ""
        yield from notes
    if places:
        yield ""
        yield "help: mend it, or accept it with --update and review the difference of the baseline"


def _drifted(verdict: Verdict) -> Iterator[str]:
    before, now = verdict.before.drift, verdict.now.drift
    assert before is not None and now is not None, "a drift is judged where both have one"
    yield f"error against {now.reference} {_drift(before)} -> {_drift(now)}"
    yield f"  it may be {verdict.allowed:.4g} times the baseline's"


def _line(line: Line, ways: list[Worse]) -> Iterator[str]:
    said = ", ".join(f"{_NAMES[worse.what]} {worse.before} -> {worse.after}" for worse in ways)
    yield f"{line.op}{_times(line.operations)}: {said}"
    yield f"  --> {line.place}"
    if line.text:
        yield f"    | {line.text}"
    if line.rule:
        yield f"  rule: {line.rule}" + (f"  ({line.rule_at})" if line.rule_at else "")
    was = ways[0].was
    if was is None:
        yield "  the baseline does not have this line"
    elif was.rule != line.rule:
        yield f"  was:  {was.rule}"


def _notes(verdict: Verdict) -> Iterator[str]:
    for name, before, now in verdict.better:
        yield f"better: {_NAMES[name]} {before} -> {now}"
    was, is_now = verdict.before.drift, verdict.now.drift
    if was is not None and is_now is not None and is_now.error < was.error:
        yield f"better: error {_drift(was)} -> {_drift(is_now)}"
    if verdict.plan_changed and not verdict.worse:
        yield "the Plan is another one than the baseline's: --update takes it over"


def _drift(drift: Drift) -> str:
    if not drift.honest:
        return f"{drift.error:.3g}"
    return f"{drift.error:.3g} ({drift.error / drift.honest:.2f} times honest rounding)"


def _times(operations: int) -> str:
    return f" ({operations} operations)" if operations > 1 else ""

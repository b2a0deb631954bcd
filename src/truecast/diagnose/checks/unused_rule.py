"""TC605: a rule that was written for this program and decides nothing in it."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.numerics.numerics import Rule
from truecast.sites import Site

CODE = "TC605"


def check(flow: Flow) -> Iterator[Finding]:
    """The unused rules of a policy of the user's own; a preset is for all programs, so its unused rules are no news."""
    plan = flow.plan
    if plan is None:
        return
    for rule in plan.unused:
        if not rule.file.startswith("preset "):
            late = next((c.by for c in plan.conflicts if c.rule is rule or c.rule == rule), None)
            yield _finding(rule, late, plan.numerics.name)


def _finding(rule: Rule, late: Rule | None, policy: str) -> Finding:
    reason = "no operation of the program matches it" if late is None else f"the rule for {late.matches} comes first"
    said = ", ".join(f"{name} = {value}" for name, value in rule.settings.items())
    return Finding(
        CODE,
        "warning",
        f"a rule of the policy `{policy}` has no effect: {rule.matches}",
        (Place("symptom", Site(file=rule.file, line=rule.line), said),),
        reason,
        "move it before that one" if late is not None else "check its keys: `truecast numerics show` prints the policy",
    )

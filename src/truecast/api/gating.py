"""`gate`: measures what a gate holds of a program. Composes lowering, the Plan and the comparison with a reference."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from truecast.api.comparing import compare
from truecast.api.programs import lower
from truecast.diagnose.audit.program import audited_program
from truecast.diagnose.audit.result import Row
from truecast.diagnose.gate import baseline
from truecast.diagnose.gate.figures import Drift, Figures, Line, Verdict, judge, merged
from truecast.errors import UsageError
from truecast.graph import Node
from truecast.lowering.fingerprint import versions
from truecast.lowering.program import Program
from truecast.numerics.plan import Decision
from truecast.numerics.scope import Policy, policy

ROUNDING = "region"
SLACK = 0.1


def measure(
    program: Callable[..., Any], *args: Any, numerics: Policy | None = None, reference: str = "float64", **kwargs: Any
) -> Figures:
    """What a gate holds of one call of a function or nn.Module under a policy.

    reference: what its error is measured against, "float64" or a preset; "none" measures no error, so that the program
    need not run. What the policy leaves to the compiler is rounded as in regions (law N3). The program stays as it was.
    """
    chosen = policy(numerics)
    lowered = lower(program, *args, numerics=chosen, **kwargs)
    drift = None if reference == "none" else _drift(program, args, kwargs, chosen, reference)
    return Figures(lowered.graph.name, chosen.name, _digest(lowered), _lines(lowered), drift)


def check(path: Path, now: Figures, slack: float = SLACK) -> Verdict:
    """What is worse than in the baseline file. Raises UsageError for a file that says nothing about these figures."""
    if not slack >= 0:
        raise UsageError("the slack is a share, 0 or more", values=f"slack {slack}")
    before = baseline.read(path, _version())
    if before.program != now.program:
        raise UsageError(
            "this baseline is of another program", where=path, values=f"of {before.program!r}, not {now.program!r}"
        )
    one, other = ((f.drift.reference, f.drift.rounding) if f.drift else ("none", "") for f in (before, now))
    if one != other:
        raise UsageError(
            "this baseline measures the error otherwise",
            where=path,
            values=f"reference {one[0]}, now {other[0]}",
            help=f"--reference {one[0]}, or --update",
        )
    return judge(before, now, slack)


def update(path: Path, now: Figures) -> None:
    """Writes the figures as the baseline."""
    baseline.write(path, now, _version())


def _version() -> str:
    return dict(versions())["truecast"]


def _drift(
    program: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], chosen: Any, reference: str
) -> Drift | None:
    """The largest error of any result; None for a program without a floating result."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a program that draws is measured on the same bits each time (law N8)
        found = compare(program, *args, a=chosen, b=chosen, reference=reference, **kwargs).measured
    results = [node for node in found.nodes if node.name in found.results]
    if not results:
        return None
    return Drift(reference, ROUNDING, max(n.b.rms for n in results), max(n.honest.rms for n in results))


def _lines(program: Program) -> tuple[Line, ...]:
    """What the Plan decides at each line, and what the lowered program does there."""
    decided = [
        _decided(node, decision)
        for node, decision in program.plan.pairs()
        if any(d is not None and d.is_inexact for d in (decision.compute, decision.accumulate))
    ]
    nodes = {node.name: node for node in program.graph.nodes}
    rows = audited_program(program).of("convert", "accumulation", "float64")
    return merged([*decided, *(_audited(row, nodes) for row in rows if row.kind != "convert" or row.is_floating)])


def _decided(node: Node, decision: Decision) -> Line:
    rule = decision.rule
    return replace(
        _at(node),
        operations=1,
        compute="" if decision.compute is None else decision.compute.name,
        accumulate="" if decision.accumulate is None else decision.accumulate.name,
        rule="by default" if rule is None else str(replace(rule, file="")),
        rule_at="" if rule is None else rule.where,
    )


def _audited(row: Row, nodes: Mapping[str, Node]) -> Line:
    at = _at(nodes[row.nodes[0]]) if row.nodes else Line("", "", "", row.op or row.operation, 0)
    if row.kind == "convert":
        return replace(at, converts=row.count, bytes=row.nbytes, rule=row.why)
    if row.kind == "accumulation":
        return replace(at, narrow_sums=row.count, rule=row.why)
    return replace(at, float64=row.count, rule=row.why)


def _at(node: Node) -> Line:
    site = node.site
    return Line(os.path.basename(site.file), site.function, site.text.strip(), node.op, 0, site=site)


def _digest(program: Program) -> str:
    """A digest of what the Plan decides about each node: the same on every machine and in every version."""
    digest = hashlib.blake2b(digest_size=8)
    for node, d in program.plan.pairs():
        digest.update(
            f"{node.op} {d.compute} {d.accumulate} {d.rounding} {d.algorithm} {d.region} {d.casts}\n".encode()
        )
    digest.update(repr(sorted(program.plan.numerics.storage)).encode())
    return digest.hexdigest()

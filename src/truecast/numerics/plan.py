"""Graph + Numerics, resolved: one Decision per node, in plain data. A Plan never edits its Graph.

Imports the leaves, graph, ops and its own package. Its words are in plan_text.py, the comparison of two in diff.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from truecast import dtypes, ops
from truecast.dtypes import DType
from truecast.errors import UsageError
from truecast.graph import Argument, Graph, Node, Value
from truecast.numerics.algorithms import require
from truecast.numerics.matching import Matcher, Outcome, covers
from truecast.numerics.mismatch import casts_for
from truecast.numerics.numerics import Numerics, Rounding, Rule
from truecast.numerics.regions import regions
from truecast.numerics.targets import require_subnormals
from truecast.ops.agreement import Casts, with_casts
from truecast.ops.operands import promoted_dtype
from truecast.ops.table import Op

if TYPE_CHECKING:
    from truecast.numerics.diff import PlanDiff

# Kinds whose nodes do arithmetic that a policy has a say in; the others move, create or convert values.
ARITHMETIC = frozenset(
    {
        *("elementwise", "reduction", "scan", "contraction", "convolution", "normalization", "attention"),
        *("pooling", "loss", "linalg", "optimizer", "composite"),
    }
)

# Kinds that multiply two operands and sum the products: they have an algorithm (law N5).
PRODUCTS = frozenset(("contraction", "convolution", "attention"))


@dataclass(frozen=True, slots=True)
class Decision:
    """How one node is computed.

    compute: the dtype the arithmetic runs in, None where there is none (movement, creation, casts).
    accumulate: the dtype sums are held in, None where nothing is summed. rounding: law N3.
    algorithm: how a contraction forms its products, "" for one pass in `compute`. region: the number of the
    elementwise region (rounding = "region") the node belongs to, 0 for none.
    casts: operands converted because of on_mismatch = "cast" (law N12): (schema argument, dtype).
    rule: the rule that decided the compute dtype (the accumulate dtype, where nothing is computed), None for the
    default; decided_by: for each setting, the rule that decided it; why: the same in words.
    """

    compute: DType | None
    accumulate: DType | None
    rounding: Rounding
    algorithm: str = ""
    region: int = 0
    casts: tuple[tuple[str, DType], ...] = ()
    rule: Rule | None = None
    why: str = ""
    decided_by: tuple[tuple[str, Rule | None], ...] = ()


NO_ARITHMETIC = Decision(None, None, "op", why="no arithmetic")
FOREIGN = Decision(None, None, "op", why="a function of another framework computes in the dtypes that it says itself")
NO_ROW = Decision(None, None, "op", why="the operations table has no row for it, so nothing is decided about it")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A rule that matches nodes but never decides `setting`, since earlier rules always do; `by` is the first of them.

    nodes: how many it lost. certain: `by` matches everything that `rule` does, in any graph.
    """

    rule: Rule
    setting: str
    by: Rule
    nodes: int
    certain: bool


@dataclass(frozen=True)
class Plan:
    """unused: the rules that decide nothing in this graph, in order; conflicts: those of them, and others, that are
    always too late for a setting."""

    graph: Graph
    numerics: Numerics
    decisions: tuple[Decision, ...]
    unused: tuple[Rule, ...] = ()
    conflicts: tuple[Conflict, ...] = ()

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Plan of {self.graph.name!r} under {self.numerics.name!r}: {len(self.decisions)} decisions>"

    def text(self, width: int = 0) -> str:
        """The Plan as a table that a person reads, `width` columns wide; 0 asks the terminal."""
        from truecast.numerics.plan_text import render

        return render(self, width)

    def diff(self, other: Plan) -> PlanDiff:
        """The nodes that this Plan and `other` decide differently. Raises UsageError for Plans of different graphs."""
        from truecast.numerics.diff import diff

        return diff(self, other)

    def pairs(self) -> Iterator[tuple[Node, Decision]]:
        """Each node with its Decision, in program order."""
        return zip(self.graph.nodes, self.decisions, strict=True)


def resolve(graph: Graph, numerics: Numerics) -> Plan:
    """One Decision per node of `graph` under `numerics`.

    Raises TargetError where a rule asks for what the policy's target can't do (law N5), and ContractError where an
    operation refuses its operands' dtypes and on_mismatch is "error" (law N12).
    """
    if not isinstance(graph, Graph):
        raise UsageError(
            f"a {type(graph).__name__} is no Graph",
            help="truecast.capture(program, *args) makes one; Graph.parse reads its text",
        )
    require_subnormals(numerics.subnormals, numerics.target, numerics.name)
    resolver = _Resolver(numerics)
    decisions = with_regions(graph, [resolver.decide(node) for node in graph.nodes], numerics)
    return Plan(graph, numerics, decisions, resolver.unused(), resolver.conflicts())


def with_regions(graph: Graph, decisions: Sequence[Decision], numerics: Numerics) -> tuple[Decision, ...]:
    """The decisions, each with the region that its node belongs to under all of them (law N3)."""
    storage = held_dtypes(numerics)
    members = [_region_dtype(node, decision) for node, decision in zip(graph.nodes, decisions, strict=True)]
    numbers = regions(graph, members, lambda dtype: storage.get(dtype, dtype))
    return tuple(
        d if d.region == number else replace(d, region=number) for d, number in zip(decisions, numbers, strict=True)
    )


def held_dtypes(numerics: Numerics) -> dict[DType, DType]:
    """The dtypes that the device holds as others (law N11)."""
    return {dtypes.of(a): dtypes.of(b) for a, b in numerics.storage}


def _region_dtype(node: Node, decision: Decision) -> DType | None:
    """The compute dtype of a node that may be part of a region, else None."""
    if decision.rounding != "region" or decision.compute is None:
        return None
    op = ops.lookup(node.op)
    return decision.compute if op is not None and op.kind == "elementwise" else None


class _Resolver:
    """Decides nodes one by one, and remembers which rules had a say."""

    def __init__(self, numerics: Numerics) -> None:
        self._numerics = numerics
        self._storage = held_dtypes(numerics)
        self._matcher = Matcher(numerics)
        self._rows: dict[str, Op | None] = {}
        self._typings: dict[tuple[object, ...], tuple[DType, Casts]] = {}
        self._decisions: dict[tuple[object, ...], Decision] = {}
        self._seen: Counter[Outcome] = Counter()

    def held(self, dtype: DType) -> DType:
        """The dtype in which the device holds `dtype` (law N11)."""
        return self._storage.get(dtype, dtype)

    def decide(self, node: Node) -> Decision:
        op = self._row(node.op)
        if op is None:
            return NO_ROW
        promoted, casts = self._typing(node, op)
        relevant = _relevant(op)
        if op.kind == "foreign":
            return FOREIGN
        if not relevant:
            return replace(NO_ARITHMETIC, casts=casts) if casts else NO_ARITHMETIC
        outcome = self._matcher.outcome(node.op, op, promoted, relevant, node.site)
        self._seen[outcome] += 1
        key = (node.op, promoted, casts, outcome)
        if key not in self._decisions:
            self._decisions[key] = self._decision(node, op, promoted, casts, outcome)
        return self._decisions[key]

    def unused(self) -> tuple[Rule, ...]:
        deciding = {index for outcome in self._seen for _, index in outcome.winners}
        return tuple(rule for index, rule in enumerate(self._numerics.rules) if index not in deciding)

    def conflicts(self) -> tuple[Conflict, ...]:
        rules = self._numerics.rules
        won = {(setting, index) for outcome in self._seen for setting, index in outcome.winners}
        lost: dict[tuple[int, str], tuple[int, int]] = {}
        for outcome, nodes in self._seen.items():
            winners = dict(outcome.winners)
            for setting, index in outcome.losers:
                if (setting, index) in won:
                    continue
                by, before = lost.get((index, setting), (winners[setting], 0))
                lost[index, setting] = (min(by, winners[setting]), before + nodes)
        return tuple(
            Conflict(rules[index], setting, rules[by], nodes, covers(rules[by], rules[index]))
            for (index, setting), (by, nodes) in sorted(lost.items())
        )

    def _row(self, name: str) -> Op | None:
        if name not in self._rows:
            self._rows[name] = ops.lookup(name)
        return self._rows[name]

    def _typing(self, node: Node, op: Op) -> tuple[DType, Casts]:
        """The promoted dtype of the numeric operands, and the casts that go before it (law N12)."""
        key = (node.op, _signature(node.args), tuple((k, _signature(v)) for k, v in node.kwargs), _result(node))
        if key not in self._typings:
            casts = casts_for(node, op, self._numerics.on_mismatch)
            self._typings[key] = promoted_dtype(with_casts(node, casts), op), casts
        return self._typings[key]

    def _decision(self, node: Node, op: Op, promoted: DType, casts: Casts, outcome: Outcome) -> Decision:
        rules = self._numerics.rules
        winners = {setting: rules[index] for setting, index in outcome.winners}
        relevant = _relevant(op)

        def said(setting: str) -> str:
            return getattr(winners[setting], setting) if setting in winners else default(setting, op)

        compute = self.held(_dtype(said("compute"), promoted)) if "compute" in relevant else None
        accumulate = self.held(_dtype(said("accumulate"), promoted)) if "accumulate" in relevant else None
        algorithm = said("algorithm") if "algorithm" in relevant else ""
        if algorithm:
            rule = winners["algorithm"]
            require(algorithm, self._numerics.target, where=f"{rule.where or 'a rule'}, for {node.op} at {node.site}")
        return Decision(
            compute,
            accumulate,
            cast(Rounding, said("rounding")),
            algorithm,
            casts=casts,
            rule=winners.get("compute" if compute is not None else "accumulate"),
            why=_why(relevant, winners, said, compute, accumulate, casts),
            decided_by=tuple((setting, winners.get(setting)) for setting in relevant),
        )


def _relevant(op: Op | None) -> tuple[str, ...]:
    """The settings that mean something for an operation, in the order of SETTINGS."""
    if op is None or op.exact:
        return ()
    arithmetic = op.kind in ARITHMETIC
    if not arithmetic and not op.accumulates:
        return ()
    found = ["compute"] if arithmetic else []
    found += ["accumulate"] if op.accumulates else []
    found += ["rounding"]
    found += ["algorithm"] if op.kind in PRODUCTS else []
    return tuple(found)


def default(setting: str, op: Op) -> str:
    """What a setting is where no rule decides it.

    Products of two 16-bit floats are exact in float32, so contractions need no wider operands, only the accumulator.
    """
    if setting == "compute":
        return "same" if op.kind in PRODUCTS else "opmath"
    return {"accumulate": "opmath", "rounding": "op", "algorithm": ""}[setting]


def _dtype(setting: str, promoted: DType) -> DType:
    if setting == "same" or not promoted.is_inexact:
        return promoted
    if setting == "opmath":
        return dtypes.opmath(promoted)
    named = dtypes.of(setting)
    return dtypes.complex_of(named) if promoted.category == "complex" else named


def _why(
    relevant: tuple[str, ...],
    winners: dict[str, Rule],
    said: Callable[[str], str],
    compute: DType | None,
    accumulate: DType | None,
    casts: Casts,
) -> str:
    """One clause for each rule that had a say, naming what it said, where, and its note."""
    results = {"compute": f" ({compute})", "accumulate": f" ({accumulate})"}
    clauses: dict[Rule | None, list[str]] = {}
    for setting in relevant:
        if value := said(setting):
            clauses.setdefault(winners.get(setting), []).append(f"{setting} = {value}{results.get(setting, '')}")
    words = []
    for rule, settings in clauses.items():
        what = ", ".join(settings)
        if rule is None:
            words.append(f"{what} by default")
            continue
        where = f" ({rule.where})" if rule.where else ""
        words.append(f"{what} by the rule for {rule.matches}{where}" + (f": {rule.note}" if rule.note else ""))
    words += [f"{name} cast to {dtype}, since on_mismatch = cast (law N12)" for name, dtype in casts]
    return "; ".join(words)


def _signature(argument: Argument) -> object:
    """What promotion can see of an argument: dtypes and forms of values, types of numbers, dtypes themselves."""
    if isinstance(argument, Value):
        return argument.dtype, bool(argument.shape), argument.scalar
    if isinstance(argument, tuple):
        return tuple(_signature(item) for item in argument)
    return argument if isinstance(argument, DType) else type(argument)


def _result(node: Node) -> DType | None:
    return next((value.dtype for value in node.outputs if value is not None), None)

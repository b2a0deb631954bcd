"""What lies between two Plans of one Graph: their differences as single changes, and the Plan for any set of those.

Imports ops, graph and its own package. A change is what one pair of rules makes of one node, so that two rules that
meet in one node (its compute dtype, its sums) can be told apart. What the two policies say of the whole program, the
storage map (law N11) and subnormals, are changes of their own, which belong to no node.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

from truecast import dtypes, ops
from truecast.dtypes import DType
from truecast.graph import Graph, Node
from truecast.numerics.diff import diff
from truecast.numerics.numerics import Numerics, Rule
from truecast.numerics.plan import Decision, Plan, held_dtypes, resolve, with_regions
from truecast.ops.operands import promoted_dtype

WHOLE_PROGRAM = ("storage", "subnormals")


@dataclass(frozen=True, slots=True)
class Change:
    """What the policies `a` and `b` say differently: at one node, for `fields`, because of their rules `a` and `b`.

    node: its index in the Graph; -1 for a setting of the whole program, whose name `fields` has then.
    """

    node: int
    fields: tuple[str, ...]
    a: Rule | None = None
    b: Rule | None = None


@dataclass(frozen=True)
class Mixture:
    """Two policies on one Graph. changes: whole-program settings first, then nodes in program order."""

    graph: Graph
    a: Numerics
    b: Numerics
    changes: tuple[Change, ...]
    _plans: dict[tuple[str, tuple[str, ...]], Plan] = field(repr=False, compare=False)

    def plan(self, chosen: Iterable[int]) -> Plan:
        """The Plan that decides the changes with these indices as policy b does, and all others as a."""
        changes = [self.changes[index] for index in dict.fromkeys(chosen)]
        if len(changes) == len(self.changes):
            return self._resolved("b", WHOLE_PROGRAM)
        whole = tuple(name for name in WHOLE_PROGRAM if any(c.node < 0 and name in c.fields for c in changes))
        base, other = self._resolved("a", whole), self._resolved("b", whole)
        decisions = list(base.decisions)
        for change in changes:
            if change.node >= 0:
                decisions[change.node] = _mixed(decisions[change.node], other.decisions[change.node], change.fields)
        return Plan(self.graph, base.numerics, with_regions(self.graph, decisions, base.numerics))

    def decisions(self, change: Change) -> tuple[Decision, Decision]:
        """What a and b decide about a change's node, under a's settings of the whole program."""
        return self._resolved("a", ()).decisions[change.node], self._resolved("b", ()).decisions[change.node]

    def _resolved(self, side: str, whole: tuple[str, ...]) -> Plan:
        """The Plan of one policy, with the settings named in `whole` from b and the others of that kind from a."""
        key = (side, whole)
        if key not in self._plans:
            settings = {name: getattr(self.b if name in whole else self.a, name) for name in WHOLE_PROGRAM}
            policy = self.a if side == "a" else self.b
            self._plans[key] = resolve(self.graph, policy.with_settings(**settings))
        return self._plans[key]


def mixture(graph: Graph, a: Numerics, b: Numerics) -> Mixture:
    """What lies between two policies on a Graph. Raises what resolving either of them raises."""
    resolve(graph, b)  # as it is, so that an error names what the user wrote
    found = Mixture(graph, a, b, (), {})
    one, other = found._resolved("a", ()), found._resolved("b", ())
    changes = [Change(-1, (name,)) for name in WHOLE_PROGRAM if _differs(name, found)]
    known = {difference.node.name: difference.fields for difference in diff(one, other).differences}
    for index, (node, a_says, b_says) in enumerate(zip(graph.nodes, one.decisions, other.decisions, strict=True)):
        fields = known.get(node.name, ())
        if a_says.rounding != b_says.rounding and _reads_wide(node, a_says) != _reads_wide(node, b_says):
            fields = tuple(dict.fromkeys((*fields, "rounding")))
        changes += _changes(index, a_says, b_says, fields)
    return replace(found, changes=tuple(changes))


def explicit_rounding(numerics: Numerics, rounding: str) -> Numerics:
    """The policy with `rounding` wherever it leaves rounding to the compiler: what it computes is then the same
    whatever compiles it (law N3)."""
    rules = tuple(replace(r, rounding=rounding) if r.rounding == "compiler" else r for r in numerics.rules)
    return replace(numerics, rules=rules)


def promotion(graph: Graph, good: Numerics, bad: Numerics, changes: Iterable[Change]) -> Numerics:
    """The policy `bad` with rules on top that decide these changes as `good` does.

    A rule names operation, dtype and source line, and the module too where the line also runs in modules that keep
    what `bad` says. Nodes without a source line are named by operation and module alone.
    """
    changes = list(changes)
    whole = {name: getattr(good, name) for c in changes if c.node < 0 for name in c.fields}
    base = bad.with_settings(**whole) if whole else bad
    decided = resolve(graph, good.with_settings(**{name: getattr(base, name) for name in WHOLE_PROGRAM}))
    settings: dict[int, dict[str, str]] = {}
    for change in changes:
        if change.node >= 0:
            decision, storage = decided.decisions[change.node], held_dtypes(base)
            settings.setdefault(change.node, {}).update({f: _setting(f, decision, storage) for f in change.fields})
    note = f"promoted to what {good.name} says"
    rules = [Rule(**cast(Any, {**keys, **said}), note=note) for keys, said in _rules(graph, settings)]
    return replace(base, name=f"{bad.name}-promoted", rules=(*rules, *base.rules), note="")


def _differs(name: str, found: Mixture) -> bool:
    """Whether the two policies' settings of the whole program compute differently on this Graph."""
    if getattr(found.a, name) == getattr(found.b, name):
        return False
    if name == "subnormals":
        return True
    a, b = held_dtypes(found.a), held_dtypes(found.b)
    inputs = [entry.value.dtype for entry in found.graph.inputs]
    values = [v.dtype for node in found.graph.nodes for v in node.outputs if v is not None]
    if any(a.get(dtype, dtype) is not b.get(dtype, dtype) for dtype in {*inputs, *values}):
        return True
    return any(
        bool(diff(found._resolved(side, ()), found._resolved(side, ("storage",))).differences) for side in ("a", "b")
    )


def _reads_wide(node: Node, decision: Decision) -> bool:
    """Whether a node may read values that are wider than their dtype, inside a region (law N3)."""
    compute = decision.compute
    return (
        decision.rounding == "region"
        and compute is not None
        and any(v.dtype.is_inexact and v.dtype.mantissa_bits < compute.mantissa_bits for v in node.inputs)
    )


def _changes(index: int, a: Decision, b: Decision, fields: tuple[str, ...]) -> Iterator[Change]:
    """The difference of one node, apart by the rules that made it. An algorithm fits its compute and accumulate
    dtypes, so where it differs the node changes as a whole."""
    rules_a, rules_b = dict(a.decided_by), dict(b.decided_by)
    if "algorithm" in fields:
        yield Change(index, fields, rules_a.get("algorithm"), rules_b.get("algorithm"))
        return
    pairs: dict[tuple[Rule | None, Rule | None], list[str]] = {}
    for name in fields:
        pairs.setdefault((rules_a.get(name), rules_b.get(name)), []).append(name)
    for (rule_a, rule_b), names in pairs.items():
        yield Change(index, tuple(names), rule_a, rule_b)


def _mixed(base: Decision, other: Decision, fields: tuple[str, ...]) -> Decision:
    taken: dict[str, Any] = {name: getattr(other, name) for name in fields}
    by = dict(base.decided_by) | {name: rule for name, rule in other.decided_by if name in fields}
    deciding = "compute" if base.compute is not None else "accumulate"
    return replace(base, **taken, decided_by=tuple(by.items()), rule=by.get(deciding), why="")


def _rules(graph: Graph, settings: dict[int, dict[str, str]]) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Keys and settings of the rules that say this of these nodes, and of no others where keys can tell."""
    everywhere: dict[tuple[str, str, str], list[tuple[str, dict[str, str] | None]]] = {}
    for index, node in enumerate(graph.nodes):
        op = ops.lookup(node.op)
        if op is not None:
            key = (node.op, promoted_dtype(node, op).name, _source(node))
            everywhere.setdefault(key, []).append((node.site.module, settings.get(index)))
    for (name, dtype, source), members in everywhere.items():
        said = [s for _, s in members if s is not None]
        keys = {"op": glob.escape(name), "dtype": dtype} | ({"source": source} if source else {})
        if said and all(s == said[0] for _, s in members):
            yield keys, said[0]
            continue
        for module, chosen in dict.fromkeys((m, tuple(s.items())) for m, s in members if s is not None):
            yield keys | ({"module": glob.escape(module)} if module else {}), dict(chosen)


def _source(node: Node) -> str:
    return f"{glob.escape(os.path.basename(node.site.file))}:{node.site.line}" if node.site.file else ""


def _setting(name: str, decision: Decision, storage: dict[DType, DType]) -> str:
    """How a rule says what a Decision says. A dtype that the device holds as another one (law N11) can only have come
    from what was promoted, and is "same"; of a complex one, a rule names the real dtype."""
    value = getattr(decision, name)
    if not isinstance(value, DType):
        return str(value)
    return dtypes.real_of(value).name if storage.get(value, value) is value else "same"

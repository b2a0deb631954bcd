"""A Plan cut into sections that run one after another, so that a model's intermediate values can be looked at without
holding all of them.

The Plan is resolved on the whole Graph, and a section takes its decisions from there: a value that leaves a section
inside an elementwise region (law N3) is handed on as it is before rounding, and rounds where it would have rounded
without the cut. `canonical` renames values and numbers regions anew, so that the layers of a model, which differ in
names alone, are compiled once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from truecast.graph import Graph, Input, Node, Output, Value, map_values
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import Plan
from truecast.numerics.regions import reads
from truecast.sites import UNKNOWN


@dataclass(frozen=True)
class Section:
    """A stretch of a Plan.

    plan: its nodes; its Graph's inputs are the values it reads from before, its outputs those that are read rounded
        after it. wide_in, wide_out: names of values that its region shares with a section before, and after.
    observed: names of its values to look at. as_declared: names of nodes that a storage map does not apply to.
    """

    plan: Plan
    wide_in: tuple[str, ...] = ()
    wide_out: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    as_declared: frozenset[str] = frozenset()


def cut(graph: Graph, most_nodes: int, most_elements: int) -> tuple[range, ...]:
    """Where to cut: stretches of at most so many nodes and elements of results, along module boundaries as far as
    there are any, the outermost first. A single node may have more elements."""
    modules = [node.site.module.split(".") if node.site.module else [] for node in graph.nodes]
    phases = [node.site.phase for node in graph.nodes]
    elements = [sum(v.size for v in node.outputs if v is not None) for node in graph.nodes]

    def strength(index: int) -> int:
        """How many names the modules of a node and the one before it share: the fewer, the stronger the boundary."""
        if phases[index] != phases[index - 1]:
            return -1
        before, after = modules[index - 1], modules[index]
        shared = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
        return min(len(before), len(after)) if shared is None else shared

    def fits(stretch: range) -> bool:
        return len(stretch) <= 1 or (len(stretch) <= most_nodes and sum(elements[i] for i in stretch) <= most_elements)

    def split(stretch: range) -> Iterable[range]:
        if fits(stretch):
            return (stretch,)
        inside = {index: strength(index) for index in stretch[1:]}
        strongest = min(inside.values())
        cuts = [index for index in stretch[1:] if inside[index] == strongest]
        if strongest == max(inside.values()):  # one module's own nodes: no boundary among them
            cuts = [stretch[len(stretch) // 2]]
        edges = [stretch.start, *cuts, stretch.stop]
        return [part for a, b in itertools.pairwise(edges) for part in split(range(a, b))]

    merged: list[range] = []
    for part in split(range(len(graph.nodes))):
        # What stands between two layers alone (a few nodes) joins the stretch before it, or it would cost a program.
        small = merged and min(len(part), len(merged[-1])) < most_nodes // 16
        joined = range(merged[-1].start, part.stop) if small else part
        if small and fits(joined):
            merged[-1] = joined
        else:
            merged.append(part)
    return tuple(merged)


def sections(
    plan: Plan, stretches: Sequence[range], observed: frozenset[str], as_declared: frozenset[str] = frozenset()
) -> tuple[Section, ...]:
    """The Plan's sections, one for each stretch of its nodes, in order."""
    home = {
        value.name: decision.region
        for node, decision in plan.pairs()
        if decision.region
        for value in node.outputs
        if value is not None
    }
    last_rounded: dict[str, int] = {}  # the last section that reads a value rounded, or wide
    last_wide: dict[str, int] = {}
    for number, stretch in enumerate(stretches):
        for index in stretch:
            for name, region in reads(plan.graph.nodes[index], plan.decisions[index]):
                is_wide = bool(region) and home.get(name) == region
                (last_wide if is_wide else last_rounded)[name] = number
    for output in plan.graph.outputs:
        if output.value is not None:
            last_rounded[output.value.name] = len(stretches)
    kinds = {entry.value.name: entry for entry in plan.graph.inputs}
    made: list[Section] = []
    for number, stretch in enumerate(stretches):
        nodes = plan.graph.nodes[stretch.start : stretch.stop]
        decisions = plan.decisions[stretch.start : stretch.stop]
        own = {v.name: v for node in nodes for v in node.outputs if v is not None}
        outside = {v.name: v for node in nodes for v in node.inputs if v.name not in own}
        read = [pair for node, d in zip(nodes, decisions, strict=True) for pair in reads(node, d)]
        wide = {name for name, region in read if region and home.get(name) == region}
        graph = Graph(
            plan.graph.name,
            tuple(kinds.get(name) or Input(value) for name, value in outside.items()),
            nodes,
            tuple(Output(value) for name, value in own.items() if last_rounded.get(name, number) > number),
        )
        made.append(
            Section(
                replace(plan, graph=graph, decisions=decisions, unused=(), conflicts=()),
                tuple(name for name in outside if name in wide),
                tuple(name for name in own if last_wide.get(name, number) > number),
                tuple(name for name in own if name in observed),
                frozenset(node.name for node in nodes if node.name in as_declared),
            )
        )
    return tuple(made)


def canonical(section: Section) -> tuple[Section, dict[str, str]]:
    """The section with its values named in order, its regions numbered from 1, and a policy without a name; and the new
    name of each value."""
    names: dict[str, str] = {}
    regions: dict[int, int] = {0: 0}

    def renamed(value: Value) -> Value:
        return replace(value, name=names.setdefault(value.name, f"v{len(names)}"))

    def node(old: Node) -> Node:
        args, kwargs = map_values(old.args, renamed), tuple((k, map_values(v, renamed)) for k, v in old.kwargs)
        return Node(old.op, args, kwargs, tuple(None if v is None else renamed(v) for v in old.outputs), UNKNOWN)

    graph = section.plan.graph
    inputs = tuple(Input(renamed(entry.value)) for entry in graph.inputs)
    nodes = tuple(map(node, graph.nodes))
    outputs = tuple(Output(None if o.value is None else renamed(o.value)) for o in graph.outputs)
    decisions = tuple(
        replace(d, region=regions.setdefault(d.region, len(regions)), rule=None, why="", decided_by=())
        for d in section.plan.decisions
    )
    # What lowering reads of a policy besides decisions; its name and target change nothing on one machine.
    policy = section.plan.numerics
    policy = Numerics("section", storage=policy.storage, subnormals=policy.subnormals)
    plan = Plan(Graph("section", inputs, nodes, outputs), policy, decisions)
    return (
        Section(
            plan,
            tuple(names[n] for n in section.wide_in),
            tuple(names[n] for n in section.wide_out),
            tuple(names[n] for n in section.observed),
            frozenset(names[n] for n in section.as_declared),
        ),
        names,
    )

"""Elementwise regions (law N3): which nodes hand each other their values without rounding in between.

Imports the leaves, graph and ops. A pass over the graph in program order, without heuristics of size or cost: the
same Graph and the same decisions give the same regions on every backend, and the Plan prints them.

An edge producer -> consumer stays wide if
  - both nodes are elementwise with rounding "region" and have the same compute dtype,
  - that is wider than the value's own dtype as the device holds it,
  - both are of one phase: what the backward pass reads of the forward pass is rounded, whether both are captured as one
    Graph or each as its own,
  - both have the same depth: no path leads from one out of the region and back into the other, as none can in a kernel
    that computes them together. A residual stream is thus rounded between layers, not carried wide through a model.
What lies outside reads the rounded value: the user's explicit casts, movement, reductions, contractions, and graph
outputs. A region is a connected set of such edges; inside one region every such edge is wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from truecast import ops
from truecast.dtypes import DType
from truecast.graph import Graph, Node, values_in
from truecast.ops.operands import bound, numeric_names

if TYPE_CHECKING:
    from truecast.numerics.plan import Decision


def regions(graph: Graph, members: Sequence[DType | None], held: Callable[[DType], DType]) -> tuple[int, ...]:
    """For each node the number of its region, from 1 in program order; 0 for a node that is in none.

    members: for each node its compute dtype if it may be in a region, else None. held: the dtype in which the device
    holds a dtype of the program.
    """
    parent = list(range(len(graph.nodes)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    depths = _depths(graph, members)
    producer: dict[str, int] = {}
    joined: set[int] = set()
    for index, (node, compute) in enumerate(zip(graph.nodes, members, strict=True)):
        if compute is None:
            continue
        for value in node.inputs:
            source = producer.get(value.name)
            if source is None or members[source] is not compute:
                continue
            if graph.nodes[source].site.phase == node.site.phase and depths[source] == depths[index]:
                parent[root(index)] = root(source)
                joined.update((source, index))
        for output in node.outputs:
            if output is not None and _is_wider(compute, held(output.dtype)):
                producer[output.name] = index
    numbers: dict[int, int] = {}
    result: list[int] = []
    for index in range(len(graph.nodes)):
        result.append(numbers.setdefault(root(index), len(numbers) + 1) if index in joined else 0)
    return tuple(result)


def _depths(graph: Graph, members: Sequence[DType | None]) -> list[int]:
    """For each member its depth: how many nodes that are none lie behind it on the longest path from the first member.

    A member all of whose readers have one greater depth goes down to it, next to them, where nothing has come between.
    """
    behind: dict[str, int] = {}  # value name -> the depth of its readers, as far as this value goes; 0: no member yet
    depths: list[int] = []
    for node, compute in zip(graph.nodes, members, strict=True):
        depth = max((behind.get(value.name, 0) for value in node.inputs), default=0)
        after = depth
        if compute is not None:
            depth = after = max(depth, 1)
        elif depth:
            after = depth + 1
        depths.append(depth)
        behind.update((value.name, after) for value in node.outputs if value is not None)
    readers: dict[str, set[int]] = {o.value.name: {0} for o in graph.outputs if o.value is not None}
    for index in reversed(range(len(graph.nodes))):
        node = graph.nodes[index]
        if members[index] is not None:
            read_at = set().union(*(readers.get(v.name, ()) for v in node.outputs if v is not None))
            if len(read_at) == 1 and depths[index] < (only := next(iter(read_at))):
                depths[index] = only
        for value in node.inputs:
            readers.setdefault(value.name, set()).add(depths[index])
    return depths


def _is_wider(compute: DType, held: DType) -> bool:
    """Whether `held` loses bits of `compute`. Not so for a comparison's bool, or a float16 held under bfloat16."""
    return (
        compute.category == held.category
        and compute.mantissa_bits > held.mantissa_bits
        and compute.exponent_bits >= held.exponent_bits
    )


def exits(graph: Graph, decisions: Sequence[Decision]) -> frozenset[str]:
    """The names of values that are made in a region and that somebody reads rounded: where it rounds."""
    pairs = list(zip(graph.nodes, decisions, strict=True))
    home = {
        v.name: decision.region for node, decision in pairs if decision.region for v in node.outputs if v is not None
    }
    read = {output.value.name for output in graph.outputs if output.value is not None}
    for node, decision in pairs:
        if any(value.name in home for value in node.inputs):
            read.update(name for name, region in reads(node, decision) if home.get(name) != region)
    return frozenset(name for name in home if name in read)


def reads(node: Node, decision: Decision) -> Iterator[tuple[str, int]]:
    """Each value that a node reads, with the region in which it would read it wide: 0 for an operand that is cast, and
    for one that takes no part in the arithmetic (a condition, an index)."""
    op = ops.lookup(node.op)
    numeric = numeric_names(node, op) if op is not None else frozenset()
    casts = dict(decision.casts)
    for name, argument in bound(node).items():
        wide = decision.region if name in numeric and name not in casts else 0
        for value in values_in((argument,)):
            yield value.name, wide

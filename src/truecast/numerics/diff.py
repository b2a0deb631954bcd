"""Where two Plans of one Graph differ: the nodes, grouped by the source line they come from.

Imports graph and the Plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from truecast import dtypes
from truecast.errors import UsageError
from truecast.graph import Node
from truecast.numerics.algorithms import spelled
from truecast.numerics.plan import Decision, Plan
from truecast.sites import Site

_FIELDS = ("compute", "accumulate", "rounding", "algorithm", "casts")


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """One node that two Plans decide differently, and the fields of the Decision that differ."""

    node: Node
    a: Decision
    b: Decision
    fields: tuple[str, ...]


@dataclass(frozen=True)
class PlanDiff:
    """a, b: the two Plans; differences in program order. `str` is what a person reads."""

    a: Plan
    b: Plan
    differences: tuple[NodeDifference, ...]

    def __bool__(self) -> bool:
        return bool(self.differences) or self.a.numerics.storage != self.b.numerics.storage

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = 0) -> str:
        """The difference as a person reads it, `width` columns wide; 0 asks the terminal."""
        from truecast.numerics.plan_text import render_diff

        return render_diff(self, width)

    def by_line(self) -> Iterator[tuple[Site, tuple[NodeDifference, ...]]]:
        """The differences of each source line, in the order in which the program first reaches it."""
        groups: dict[tuple[str, int, str], list[NodeDifference]] = {}
        for difference in self.differences:
            site = difference.node.site
            groups.setdefault((site.file, site.line, site.phase), []).append(difference)
        for found in groups.values():
            yield found[0].node.site, tuple(found)


def diff(a: Plan, b: Plan) -> PlanDiff:
    """The nodes that two Plans of one Graph decide differently. Raises UsageError for Plans of different Graphs."""
    if a.graph is not b.graph and a.graph != b.graph:
        raise UsageError(
            "the two Plans are of different Graphs",
            values=f"{a.graph!r} and {b.graph!r}",
            help="resolve both policies on one Graph",
        )
    found: list[NodeDifference] = []
    for node, one, other in zip(a.graph.nodes, a.decisions, b.decisions, strict=True):
        if one is other:
            continue
        fields = tuple(f for f in _FIELDS if getattr(one, f) != getattr(other, f) and _matters(f, node, one, other))
        if fields:
            found.append(NodeDifference(node, one, other, fields))
    return PlanDiff(a, b, tuple(found))


def _matters(field: str, node: Node, one: Decision, other: Decision) -> bool:
    """Whether a difference changes anything: that of a rounding mode does only where a result is rounded, that of an
    algorithm's name only where another name for the same products and sums isn't all."""
    if field == "rounding":
        return rounds(node, one) or rounds(node, other)
    if field == "algorithm":
        return len({spelled(d.algorithm, d.compute, d.accumulate) for d in (one, other)}) == 2
    return True


def rounds(node: Node, decision: Decision) -> bool:
    """Whether a node's result is rounded, so that its rounding mode is worth saying."""
    if decision.compute is None and decision.accumulate is None:
        return False
    computed = decision.compute or decision.accumulate or dtypes.float32
    return any(
        v is not None and v.dtype.is_inexact and (v.dtype.is_narrow or v.dtype.mantissa_bits < computed.mantissa_bits)
        for v in node.outputs
    )

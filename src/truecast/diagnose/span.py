"""What computes in a wider dtype because of one value: the operations after it whose results follow its dtype."""

from __future__ import annotations

from dataclasses import dataclass

from truecast.diagnose.flow import Flow
from truecast.graph import Node, Value
from truecast.ops import lookup

# What makes a span expensive, or wrong to leave wide: the operations that have a fast kernel in 16 bits.
_HEAVY = frozenset(("contraction", "convolution", "attention"))


@dataclass(frozen=True, slots=True)
class Span:
    """nodes: those that compute in the dtype of `start`. heavy: the first product among them. ends: the casts that
    convert one of its values to fewer bits."""

    start: Value
    nodes: tuple[Node, ...]
    heavy: Node | None
    ends: tuple[Node, ...]

    @property
    def names(self) -> set[str]:
        return {v.name for node in self.nodes for v in node.outputs if v is not None}

    @property
    def nbytes(self) -> int:
        """The bytes of the nodes' results, views not counted."""
        return sum(v.nbytes for node in self.nodes for v in node.outputs if v is not None and not _is_view(node))


def follow(flow: Flow, value: Value) -> Span:
    """The span that begins at `value`, in the forward pass."""
    nodes: dict[int, Node] = {}
    ends: dict[int, Node] = {}
    heavy: Node | None = None
    pending = [value]
    while pending:
        current = pending.pop()
        for node in flow.consumers.get(current.name, ()):
            if id(node) in nodes or node.site.phase != "forward":
                continue
            row = lookup(node.op)
            if row is None:
                continue
            if row.kind == "cast":
                if any(v is not None and v.dtype.bits < current.dtype.bits for v in node.outputs):
                    ends[id(node)] = node
                continue
            results = [v for v in node.outputs if v is not None and v.dtype is current.dtype]
            if not results:
                continue
            nodes[id(node)] = node
            if row.kind in _HEAVY and heavy is None:
                heavy = node
            pending += results
    return Span(value, tuple(nodes.values()), heavy, tuple(ends.values()))


def _is_view(node: Node) -> bool:
    row = lookup(node.op)
    return row is not None and row.kind == "movement" and node.op not in _COPIES


_COPIES = frozenset(("aten.cat.default", "aten.stack.default", "aten.constant_pad_nd.default", "aten.clone.default"))

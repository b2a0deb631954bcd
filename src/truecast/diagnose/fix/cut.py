"""The smallest set of casts that mends refused operands: a minimum cut of the dtype flow.

The flow runs from the expressions that make a dtype (a promotion by a table, a factory, a norm) to the operands that
refuse it. A cast cuts it behind an expression, for all that read it, or at the operand that refuses. The price of a
cast is the bytes that it reads and writes each time that it runs, and a launch. What must not be narrowed has no price:
what a schedule, an angle, a norm, a loss, a sum or a decision is computed from, and what meets other wide values. A
product that is wide by an unwanted promotion alone is to be narrow as well. Several refusals with one cause are mended
by one cast where that is cheaper.

The nodes of the network are source expressions, not values: a line in a loop or in forty layers is edited once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import networkx

from truecast.diagnose.checks import contracts
from truecast.diagnose.explained import operand_name
from truecast.diagnose.finding import Cast, Finding
from truecast.diagnose.fix.rewriting import is_the_users, parsed
from truecast.diagnose.flow import Flow
from truecast.dtypes import DType
from truecast.graph import Node, Value
from truecast.observations import Refusal
from truecast.ops import lookup
from truecast.sites import Site

# What starting a cast costs beside moving its bytes, in bytes: one cast of 32 kB rather than two of 8.
LAUNCH = 1 << 16
# Elementwise operations in whose operands a rounding grows: angles, exponents, logarithms.
_SENSITIVE = frozenset("sin cos tan polar exp exp2 expm1 log log2 log10 log1p pow atan2 logit erfinv sigmoid".split())
# Kinds whose result may be as narrow as its operands.
_PASSING = frozenset(("movement", "elementwise", "pooling", "indexing"))
_HEAVY = frozenset(("contraction", "convolution", "attention"))
_WIDE_PRODUCT = 1 << 50  # more than any cast: a product in float32 costs many times one in 16 bits, at every step
# Public functions whose result is no single tensor.
_SEVERAL = frozenset(
    "chunk split split_with_sizes unbind tensor_split hsplit vsplit dsplit meshgrid broadcast_tensors align_tensors "
    "unsafe_chunk unsafe_split topk sort min max median mode kthvalue cummax cummin aminmax frexp var_mean std_mean "
    "lstm gru rnn_tanh rnn_relu multi_head_attention_forward tolist".split()
)

_SOFTMAX = frozenset(("softmax", "safe_softmax", "log_softmax"))

Place = tuple[str, int, int, int, int]  # a file and the span of an expression; a value's name and zeros outside of any
_SOURCE, _SINK = "source", "sink"


@dataclass(frozen=True, slots=True)
class PlannedCast:
    """One cast, what it casts each time, how often it ran in the recording, the bytes it moved, and what it mends."""

    cast: Cast
    before: DType
    after: DType
    times: int
    nbytes: int
    mends: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Want:
    """An operand that has to become `dtype` for `finding` to go."""

    finding: Finding
    refusal: Refusal
    name: str
    value: Value
    dtype: DType


def planned(flow: Flow, findings: Sequence[Finding]) -> tuple[list[PlannedCast], list[Finding]]:
    """The casts that mend the contract findings among `findings`, and those that no cast of the user's source mends."""
    groups: dict[tuple[DType, DType], list[_Want]] = defaultdict(list)
    wanted: set[int] = set()
    for want in _wants(flow, findings):
        groups[want.value.dtype, want.dtype].append(want)
        wanted.add(id(want.finding))
    casts: list[PlannedCast] = []
    left = [f for f in findings if id(f) not in wanted]
    for (before, after), wants in groups.items():
        found, unmended = _Network(flow, before, after, wants).solved()
        casts += found
        left += [f for f in unmended if f not in left]
    gone = {id(f) for f in left}  # a finding with one operand that can't be mended stays
    return [c for c in casts if any(id(f) not in gone for f in c.mends)], left


def _wants(flow: Flow, findings: Sequence[Finding]) -> Iterator[_Want]:
    """One want for each refusal that a finding is about."""
    by_cause = {finding.cause: finding for finding in findings}
    for refusal, single in contracts.refused(flow):
        finding = by_cause.get(single.cause)
        if finding is not None and len(refusal.operands) > 1 and not contracts.is_norm_in_autocast(refusal):
            (name, value), (_, anchor) = contracts.sides(flow, refusal)
            yield _Want(finding, refusal, name, value, anchor.dtype)


class _Network:
    """The flow of values of dtype `before`, to be cut so that the wanted operands become `after`."""

    def __init__(self, flow: Flow, before: DType, after: DType, wants: list[_Want]) -> None:
        self._flow, self._before, self._after, self._wants = flow, before, after, wants
        self._graph = networkx.DiGraph()
        self._graph.add_nodes_from((_SOURCE, _SINK))
        self._narrows = before.bits > after.bits or before.bits == after.bits
        self._nodes: dict[Place, list[Node]] = defaultdict(list)
        for node in flow.graph.nodes:
            if node.site.phase == "forward" or flow.call(node).function:
                self._nodes[_place(node)].append(node)
        self._casts: dict[tuple[object, object], Cast] = {}
        self._moved: dict[tuple[object, object], tuple[int, int]] = {}
        self._refused: dict[tuple[Place, Place], list[tuple[_Want, Value]]] = defaultdict(list)
        for want in wants:
            for value, place in self._entering(want):
                self._refused[place, _place_of(want.refusal.site)].append((want, value))
        self._build()

    # -- the network ---------------------------------------------------------------------------------------------

    def _entering(self, want: _Want) -> Iterator[tuple[Value, Place]]:
        """The values from other expressions that the wanted operand is, or is a view of, within its own."""
        here = _place_of(want.refusal.site)
        pending, seen = [want.value], set()
        while pending:
            value = pending.pop()
            place = self._origin(value)
            if place != here:
                yield value, place
            elif value.name not in seen:
                seen.add(value.name)
                node = self._flow.producers[value.name]
                pending += [v for v in node.inputs if v.dtype is self._before]

    def _origin(self, value: Value) -> Place:
        """The expression that makes a value; none for what comes from outside, or is a module's."""
        node = self._flow.producers.get(value.name)
        if node is None or value.name in self._flow.observations.parameters:
            return (value.name, 0, 0, 0, 0)
        return _place(node)

    def _build(self) -> None:
        pending = [place for place, _ in self._refused]
        seen: set[Place] = set()
        for place, consumer in self._refused:
            self._connect_refused(place, consumer)
        while pending:
            place = pending.pop()
            if place in seen:
                continue
            seen.add(place)
            pending += self._add(place)

    def _add(self, place: Place) -> list[Place]:
        """Adds an expression; returns those it reads from, and those that read it where it could be cast."""
        nodes = self._nodes.get(place, [])
        is_source = not nodes or any(self._makes(node) for node in nodes)
        if is_source:
            self._graph.add_edge(_SOURCE, ("made", place))
        cast = self._behind(place, nodes)
        if cast is not None:
            edge = (("made", place), ("seen", place))
            arithmetic = any(_kind(n) == "elementwise" and _name(n) not in _SENSITIVE for n in nodes)
            self._price(edge, cast, self._leaving(place, nodes), 0 if arithmetic else 2)
        else:
            self._graph.add_edge(("made", place), ("seen", place))
        if any(_kind(node) in _HEAVY for node in nodes) and not is_source:
            self._graph.add_edge(("made", place), _SINK, capacity=_WIDE_PRODUCT)
        following: list[Place] = []
        for value in self._operands(place, nodes):
            before = self._origin(value)
            if (before, place) in self._refused:
                continue
            readers = [n for n in nodes if value in n.inputs]
            if all(self._is_free(n) for n in readers):
                continue
            use = self._use(before, place)
            if is_source or not all(self._passes(n) for n in readers):
                self._graph.add_edge(_SOURCE, use)
            else:  # the result is narrow where all operands are, and only there
                self._graph.add_edge(use, ("made", place))
                self._graph.add_edge(("made", place), use)
            if not is_source:
                following.append(before)
        if cast is not None:
            following += self._readers(place, nodes)
        return following

    def _use(self, place: Place, consumer: Place) -> tuple[str, Place, Place]:
        """What `consumer` sees of `place`: without a cast there, what everybody sees."""
        use = ("use", place, consumer)
        self._graph.add_edge(("seen", place), use)
        self._graph.add_edge(use, ("seen", place))
        return use

    def _connect_refused(self, place: Place, consumer: Place) -> None:
        use = ("use", place, consumer)
        self._graph.add_edge(use, ("seen", place))
        self._graph.add_edge(use, _SINK)
        entering = self._refused[place, consumer]
        want = entering[0][0]
        cast = self._at_operand(want)
        if cast is not None:
            self._price((("seen", place), use), cast, [value for _, value in entering], 1)
        else:
            self._graph.add_edge(("seen", place), use)

    def _price(self, edge: tuple[object, object], cast: Cast, values: list[Value], bias: int) -> None:
        """bias: decides between casts of one price: behind arithmetic, at an operand, behind anything else."""
        nbytes = sum(v.size * (self._before.itemsize + self._after.itemsize) for v in values)
        self._casts[edge], self._moved[edge] = cast, (len(values), nbytes)
        self._graph.add_edge(*edge, capacity=4 * (nbytes + LAUNCH * len(values)) + bias)

    # -- what an operation does with a narrower operand ------------------------------------------------------------

    def _makes(self, node: Node) -> bool:
        """Whether a result is in `before` whatever the operands that had it would be."""
        for value in node.outputs:
            if value is None or value.dtype is not self._before:
                continue
            step = self._flow.step(value)
            if step.why == "promotion" and self._passes(node):
                table = step.because is not None and step.because.size < value.size
                if table or any(v.dtype is not self._after for v in step.outvoted):
                    return True
            elif step.why != "follows" or not self._passes(node):
                return True
        return False

    def _passes(self, node: Node) -> bool:
        """Whether a result may be narrow where its operands are. A product or a softmax may where only promotions made
        it wide: nobody asked for its precision."""
        if _kind(node) in _HEAVY or _name(node) in _SOFTMAX:
            return self._is_unasked(node)
        row = lookup(node.op)
        return row is not None and row.kind in _PASSING and not row.accumulates and _name(node) not in _SENSITIVE

    def _is_unasked(self, node: Node) -> bool:
        """Whether all that makes a node wide are promotions of values in `after`."""
        pending, seen = [v for v in node.inputs if v.dtype is self._before], set()
        while pending:
            value = pending.pop()
            if value.name in seen:
                continue
            seen.add(value.name)
            step = self._flow.step(value)
            if step.why == "promotion" and all(v.dtype is self._after for v in step.outvoted):
                continue
            if step.why != "follows" or step.node is None or value.name in self._flow.observations.parameters:
                return False
            pending += [v for v in step.node.inputs if v.dtype is self._before]
        return True

    def _is_free(self, node: Node) -> bool:
        """Whether an operation may read a narrower value without harm: a conversion does; so does one that makes a
        tensor like another."""
        row = lookup(node.op)
        return row is not None and row.kind in ("cast", "creation", "query", "random")

    # -- where a cast can stand ------------------------------------------------------------------------------------

    def _behind(self, place: Place, nodes: list[Node]) -> Cast | None:
        """The cast of an expression's value; None where it can't be edited or its value isn't one tensor."""
        if not self._narrows or not place[1] or not nodes or not is_the_users(place[0]):
            return None
        functions = {self._flow.call(node).function for node in nodes}
        if any(f in _SEVERAL or (f.endswith("_") and not f.endswith("__")) or f == "__setitem__" for f in functions):
            return None
        if any(len(node.outputs) > 1 for node in nodes):
            return None
        known = parsed(place[0])
        if known is None or not known.can_cast(place[1:]):
            return None
        return Cast(place[0], place[1:], f"to({self._spelled(place)})")

    def _spelled(self, place: Place) -> str:
        """The dtype as the expression itself can say it: that of a variable that was outvoted in it."""
        for inner, nodes in self._nodes.items():
            if inner[0] == place[0] and place[1:3] <= inner[1:3] and inner[3:] <= place[3:]:
                for node in nodes:
                    for value in filter(None, node.outputs):
                        step = self._flow.step(value)
                        if step.why == "promotion" and step.outvoted and step.outvoted[0].dtype is self._after:
                            name = operand_name(node, step.outvoted[0])
                            if name.replace(".", "").replace("_", "").isalnum():
                                return f"{name}.dtype"
        return f"torch.{self._after}"

    def _at_operand(self, want: _Want) -> Cast | None:
        site = want.refusal.site
        if not is_the_users(site.file):
            return None
        span = contracts.operand_span(want.refusal, want.name)
        known = parsed(site.file)
        if span is None or known is None or not known.can_cast(span):
            return None
        return Cast(site.file, span, f"to(torch.{self._after})")

    def _leaving(self, place: Place, nodes: list[Node]) -> list[Value]:
        """The values in `before` that an expression makes and others read."""
        made = [v for node in nodes for v in node.outputs if v is not None and v.dtype is self._before]
        return [v for v in made if any(_place(n) != place for n in self._flow.consumers.get(v.name, ()))]

    def _operands(self, place: Place, nodes: list[Node]) -> list[Value]:
        values = dict.fromkeys(v for node in nodes for v in node.inputs if v.dtype is self._before)
        return [v for v in values if self._origin(v) != place]

    def _readers(self, place: Place, nodes: list[Node]) -> list[Place]:
        readers = [n for v in self._leaving(place, nodes) for n in self._flow.consumers.get(v.name, ())]
        return [p for p in dict.fromkeys(map(_place, readers)) if p in self._nodes and p != place]

    # -- the cut ---------------------------------------------------------------------------------------------------

    def solved(self) -> tuple[list[PlannedCast], list[Finding]]:
        """The cheapest casts for the wants that can be mended, and the findings of the others."""
        left: list[Finding] = []
        for key, entering in self._refused.items():
            use = ("use", *key)
            if not self._can_be_cut(use):
                self._graph.remove_edge(use, _SINK)
                left += [want.finding for want, _ in entering if want.finding not in left]
        _, (_, narrow) = networkx.minimum_cut(self._graph, _SOURCE, _SINK)
        cut = [edge for edge in self._casts if edge[0] not in narrow and edge[1] in narrow]
        mends: dict[tuple[object, object], dict[int, Finding]] = {edge: {} for edge in cut}
        for key, entering in self._refused.items():
            for edge in self._cuts_before(("use", *key), narrow, cut):
                mends[edge].update((id(want.finding), want.finding) for want, _ in entering)
        return [
            PlannedCast(self._casts[edge], self._before, self._after, *self._moved[edge], tuple(mends[edge].values()))
            for edge in cut
        ], left

    def _can_be_cut(self, use: object) -> bool:
        """Whether every way from the source to a use has a price."""
        free = networkx.subgraph_view(
            self._graph, filter_edge=lambda a, b: "capacity" not in self._graph.edges[a, b] and b is not _SINK
        )
        return not networkx.has_path(free, _SOURCE, use)

    def _cuts_before(
        self, use: object, narrow: set[object], cut: list[tuple[object, object]]
    ) -> list[tuple[object, object]]:
        """The casts that make a use narrow."""
        before = {use, *networkx.ancestors(self._graph.subgraph(narrow - {_SINK}), use)} if use in narrow else set()
        return [edge for edge in cut if edge[1] in before]


def _kind(node: Node) -> str:
    row = lookup(node.op)
    return row.kind if row is not None else ""


def _name(node: Node) -> str:
    return node.op.split(".")[1].strip("_")


def _place(node: Node) -> Place:
    return _place_of(node.site) if node.site.column else (node.name, 0, 0, 0, 0)


def _place_of(site: Site) -> Place:
    return (site.file, *site.span)

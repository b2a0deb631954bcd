"""The flow of dtypes through the tree of modules, as an HTML report draws it: plain data of bounded size.

A box is a module (or a run of sibling modules that do the same: layers 0 to 79), an edge what flows from one to another
in one dtype. A graph of 70 billion parameters has a thousand modules and fifty thousand nodes; its picture has a few
hundred boxes at most, and says what it left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import get_args

from truecast.diagnose.finding import Finding
from truecast.diagnose.flow import Flow
from truecast.graph import Node, Value
from truecast.sites import Phase

MOST_BOXES = 400
_MOST_CHANGES = 8  # listed per box
_SEPARATOR = "."


@dataclass(frozen=True, slots=True)
class Change:
    """Where a box's operations turn one floating dtype into another: `times`, `nbytes` of results in all."""

    before: str
    after: str
    where: str
    source: str
    times: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Box:
    """One module. parent: the index of the box around it, -1 for the program. stands_for: how many modules it shows.
    nbytes: of its own results, by dtype. findings: the numbers of those that have a place in it."""

    name: str
    path: str
    parent: int
    stands_for: int
    operations: int
    nbytes: tuple[tuple[str, int], ...]
    changes: tuple[Change, ...]
    findings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """Values of one dtype that one box makes and another reads. becomes: the dtype of what is made of them there, where
    that is another floating one; "" otherwise."""

    source: int
    target: int
    dtype: str
    becomes: str
    times: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Picture:
    """One phase of a program. left_out: how many boxes were drawn into the one around them."""

    phase: Phase
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    left_out: int = 0


@dataclass
class _Module:
    """A module while it is counted."""

    name: str
    path: str
    operations: int = 0
    nbytes: Counter[str] = field(default_factory=Counter)
    changes: dict[tuple[str, str, str, str], list[int]] = field(default_factory=dict)
    findings: set[int] = field(default_factory=set)
    children: dict[str, _Module] = field(default_factory=dict)
    stands_for: int = 1

    def child(self, name: str) -> _Module:
        if name not in self.children:
            path = f"{self.path}{_SEPARATOR}{name}" if self.path else name
            self.children[name] = _Module(name, path)
        return self.children[name]

    def size(self) -> int:
        return 1 + sum(child.size() for child in self.children.values())

    def kind(self) -> tuple[object, ...]:
        """What two modules share that may be drawn as one: the tree below, its dtypes, changes and findings."""
        return (
            tuple(sorted(self.nbytes)),
            tuple(sorted({(before, after) for before, after, _, _ in self.changes})),
            tuple(sorted(self.findings)),
            tuple((name, child.kind()) for name, child in self.children.items()),
        )

    def absorb(self, other: _Module) -> None:
        """Adds what `other` did, its tree included, to this module's tree of the same shape."""
        self._add(other)
        self.stands_for += other.stands_for
        for name, child in other.children.items():
            if name in self.children:
                self.children[name].absorb(child)
            else:
                self.children[name] = child

    def swallow(self, other: _Module) -> None:
        """Adds what `other` and all below it did to this module itself."""
        self._add(other)
        for child in other.children.values():
            self.swallow(child)

    def _add(self, other: _Module) -> None:
        self.operations += other.operations
        self.nbytes.update(other.nbytes)
        self.findings |= other.findings
        for key, (times, nbytes) in other.changes.items():
            mine = self.changes.setdefault(key, [0, 0])
            mine[0] += times
            mine[1] += nbytes


def pictures(flow: Flow, findings: Sequence[Finding], most: int = MOST_BOXES) -> tuple[Picture, ...]:
    """A picture for each phase that the program has."""
    nodes: dict[Phase, list[Node]] = defaultdict(list)
    for node in flow.graph.nodes:
        nodes[node.site.phase].append(node)
    return tuple(_picture(phase, nodes[phase], flow, findings, most) for phase in get_args(Phase) if nodes[phase])


def _picture(phase: Phase, nodes: list[Node], flow: Flow, findings: Sequence[Finding], most: int) -> Picture:
    root = _Module("program", "")
    for node in nodes:
        module = _at(root, node.site.module)
        module.operations += 1
        for value in _results(node):
            module.nbytes[str(value.dtype)] += value.nbytes
        for operand, result in _changes(node):
            counted = module.changes.setdefault((str(operand.dtype), str(result.dtype), *_line(node)), [0, 0])
            counted[0] += 1
            counted[1] += result.nbytes
    for number, finding in enumerate(findings):
        for place in finding.places:
            if place.site.phase == phase:
                _at(root, place.site.module).findings.add(number)
    shown: dict[str, str] = {}
    _fold(root, shown)
    before = root.size()
    _bound(root, most, shown)
    paths = _Paths(root, shown)
    return _numbered(phase, paths, _edges(nodes, paths, flow), before - root.size())


def _at(root: _Module, path: str) -> _Module:
    module = root
    for name in path.split(_SEPARATOR) if path else ():
        module = module.child(name)
    return module


def _results(node: Node) -> list[Value]:
    return [v for v in node.outputs if v is not None]


def _changes(node: Node) -> list[tuple[Value, Value]]:
    """(operand, result) of different inexact dtypes: the first operand that is at odds with the first result."""
    result = next(iter(_results(node)), None)
    if result is None or not result.dtype.is_inexact:
        return []
    operand = next((v for v in node.inputs if v.dtype.is_inexact and v.dtype is not result.dtype), None)
    return [] if operand is None else [(operand, result)]


def _line(node: Node) -> tuple[str, str]:
    return str(node.site), node.site.expression


def _fold(module: _Module, shown: dict[str, str]) -> None:
    """Draws runs of numbered siblings of one kind as one box. shown: from the path of a module that no longer has its
    own box to the path of its stand-in."""
    for child in module.children.values():
        _fold(child, shown)
    folded: list[list[_Module]] = []
    for child in module.children.values():
        run = folded[-1] if folded else []
        if child.name.isdecimal() and run and run[0].name.isdecimal() and child.kind() == run[0].kind():
            run.append(child)
        else:
            folded.append([child])
    module.children = {}
    for first, *others in folded:
        for other in others:
            first.absorb(other)
            shown[other.path] = first.path
        if others:
            first.name = f"{first.name}–{others[-1].name}"
        module.children[first.name] = first


def _bound(root: _Module, most: int, shown: dict[str, str]) -> None:
    """Draws siblings beyond a quarter of `most` as one box (those with findings last), then the deepest modules into
    the ones around them, until at most `most` boxes are left."""
    for module, _ in list(_walk(root, 0)):
        _crowd(module, most // 4, shown)
    depths = Counter(depth for _, depth in _walk(root, 0))
    deepest = max(depths)
    while deepest > 1 and sum(n for depth, n in depths.items() if depth <= deepest) > most:
        deepest -= 1
    for module in [module for module, depth in _walk(root, 0) if depth == deepest]:
        for child in module.children.values():
            module.swallow(child)
        module.children = {}


def _crowd(module: _Module, most: int, shown: dict[str, str]) -> None:
    children = list(module.children.values())
    if len(children) <= most:
        return
    marked = sorted(children, key=lambda child: not any(m.findings for m, _ in _walk(child, 0)))
    kept = {id(child) for child in marked[: most - 1]}
    rest = [child for child in children if id(child) not in kept]
    last = _Module(f"{len(rest)} more", rest[0].path, stands_for=0)
    for child in rest:
        last.swallow(child)
        last.stands_for += child.stands_for
        shown[child.path] = last.path
    module.children = {child.name: child for child in (*(c for c in children if id(c) in kept), last)}


def _walk(module: _Module, depth: int) -> Iterator[tuple[_Module, int]]:
    yield module, depth
    for child in module.children.values():
        yield from _walk(child, depth + 1)


class _Paths:
    """Which box shows the module at a path."""

    def __init__(self, root: _Module, shown: dict[str, str]) -> None:
        self.boxes = list(_walk(root, -1))
        self._number = {module.path: number for number, (module, _) in enumerate(self.boxes)}
        self._shown = shown
        self._known: dict[str, int] = {}

    def number(self, path: str) -> int:
        """The box's number; of the closest one around it for a module without a box of its own."""
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self._find(path)
        return found

    def _find(self, path: str) -> int:
        at = ""
        for name in path.split(_SEPARATOR) if path else ():
            below = f"{at}{_SEPARATOR}{name}" if at else name
            below = self._shown.get(below, below)
            if below not in self._number:
                break
            at = below
        return self._number[at]


def _edges(nodes: list[Node], paths: _Paths, flow: Flow) -> tuple[Edge, ...]:
    """What flows between boxes; a source of -1 stands for what comes from outside of the program. Parameters are a
    module's own, and what a backward operation reads of the forward ones is not drawn."""
    owned = flow.observations.parameters
    here = {id(node) for node in nodes}
    counted: dict[tuple[int, int, str, str], list[int]] = {}
    for node in nodes:
        target = paths.number(node.site.module)
        result = next(iter(_results(node)), None)
        for value in dict.fromkeys(node.inputs):
            producer = flow.producers.get(value.name)
            if value.name in owned or (producer is not None and id(producer) not in here):
                continue
            if producer is None and flow.inputs[value.name].kind in ("parameter", "buffer"):
                continue
            source = paths.number(producer.site.module) if producer is not None else -1
            if source == target:
                continue
            changes = result is not None and result.dtype is not value.dtype
            both = changes and result is not None and result.dtype.is_inexact and value.dtype.is_inexact
            becomes = str(result.dtype) if both and result is not None else ""
            found = counted.setdefault((source, target, str(value.dtype), becomes), [0, 0])
            found[0] += 1
            found[1] += value.nbytes
    return tuple(Edge(*key, *sums) for key, sums in counted.items())


def _numbered(phase: Phase, paths: _Paths, edges: tuple[Edge, ...], left_out: int) -> Picture:
    parents: list[int] = []
    boxes = []
    for number, (module, depth) in enumerate(paths.boxes):
        parents[depth + 1 :] = [number]
        changes = sorted(module.changes.items(), key=lambda change: -change[1][1])[:_MOST_CHANGES]
        boxes.append(
            Box(
                module.name,
                module.path,
                parents[depth] if depth >= 0 else -1,
                module.stands_for,
                module.operations,
                tuple(module.nbytes.most_common()),
                tuple(Change(*key, *sums) for key, sums in changes),
                tuple(sorted(module.findings)),
            )
        )
    return Picture(phase, tuple(boxes), edges, left_out)

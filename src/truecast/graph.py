"""What the user's program does: a functional list of ATen operations over typed values.

Imports only the leaves. A Graph is immutable plain data: capture makes it, everything after reads it.
It holds no tensor contents, so its text form (graph_text.py) is complete: it prints, parses back to an
equal Graph, and diffs.

Invariants (`verify` names the one that is broken):
  G1  a name is defined once, by an input or by one node's output
  G2  a value is defined before it is used, and an argument equals its definition
  G3  an operation is named namespace.name.overload
  G4  an argument is a Value, a literal, or a tuple of such; a keyword is an identifier, given once
  G5  every output refers to a defined value; a mutation's target is an input of the same dtype and shape;
      a result has no target
  G6  shapes are tuples of non-negative ints; a scalar's shape is ()
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from truecast.dtypes import DType
from truecast.errors import GraphError
from truecast.sites import UNKNOWN, Site

InputKind = Literal["input", "parameter", "buffer", "constant", "scalar"]
OutputKind = Literal["result", "mutation"]


@dataclass(frozen=True, slots=True)
class Value:
    """A typed value, known by its name. `scalar` marks a Python number that became an input: it has shape
    () and promotes as a Python scalar does, not as a 0-dim tensor (law N1)."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    scalar: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Token:
    """A literal that is neither a number nor a string: a memory format, a layout, a device ("torch.strided", "cpu")."""

    text: str


# A Value, a literal (None, bool, int, float, complex, str, DType, Token), or a tuple of arguments.
Argument = Any
_LITERALS = (type(None), bool, int, float, complex, str, DType, Token)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One ATen overload applied to arguments in the order of its schema. An output that the schema has but
    the program never sees (an undefined tensor) is None.

    Two nodes are equal if they print the same: literals compare by type and bits, so that 1, 1.0 and True
    differ, as do 0.0 and -0.0, and a NaN equals itself.
    """

    op: str
    args: tuple[Argument, ...]
    kwargs: tuple[tuple[str, Argument], ...]
    outputs: tuple[Value | None, ...]
    site: Site = UNKNOWN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.op, _by_bits(self.args), _by_bits(self.kwargs), self.outputs, self.site

    @property
    def name(self) -> str:
        """The name of the first output: the node's name in plans, programs and reports."""
        return next((v.name for v in self.outputs if v is not None), "")

    @property
    def inputs(self) -> Iterator[Value]:
        """Every Value among the arguments, in order, repeated where it is used repeatedly."""
        yield from values_in(self.args)
        for _, argument in self.kwargs:
            yield from values_in((argument,))


@dataclass(frozen=True, slots=True)
class Input:
    """A graph input. `path` is its name in the program: a parameter's fully qualified name, an argument's name."""

    value: Value
    kind: InputKind = "input"
    path: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """A graph output: a result, or the new contents of the input named `target` (a mutation)."""

    value: Value | None
    kind: OutputKind = "result"
    target: str = ""


@dataclass(frozen=True)
class Graph:
    name: str
    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]

    def __str__(self) -> str:
        from truecast.graph_text import render

        return render(self)

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {len(self.inputs)} inputs, {len(self.nodes)} nodes, {len(self.outputs)} outputs>"

    @staticmethod
    def parse(text: str) -> Graph:
        """The Graph that `text` prints. Raises GraphError with line and column."""
        from truecast.graph_text import parse

        return parse(text)

    def producers(self) -> dict[str, Node]:
        """For each value's name, the node that makes it (inputs have none)."""
        return {v.name: node for node in self.nodes for v in node.outputs if v is not None}

    def consumers(self) -> dict[str, list[Node]]:
        """For each value's name, the nodes that read it, in order, each once."""
        table: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(v.name for v in node.inputs):
                table.setdefault(name, []).append(node)
        return table

    def without_dead_nodes(self) -> Graph:
        """The same program without nodes that no output depends on."""
        live = {o.value.name for o in self.outputs if o.value is not None}
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if any(v is not None and v.name in live for v in node.outputs):
                kept.append(node)
                live.update(v.name for v in node.inputs)
        return Graph(self.name, self.inputs, tuple(reversed(kept)), self.outputs)

    def verify(self) -> Graph:
        """This Graph, if it keeps the invariants. Raises GraphError naming the rule and the node."""
        _verify(self)
        return self


def values_in(arguments: Iterable[Argument]) -> Iterator[Value]:
    """Every Value in a nest of tuples, in order."""
    for argument in arguments:
        if isinstance(argument, Value):
            yield argument
        elif isinstance(argument, tuple):
            yield from values_in(argument)


def map_values(argument: Argument, function: Callable[[Value], Argument]) -> Argument:
    """The same nest with each Value replaced by `function(value)`; literals stay."""
    if isinstance(argument, Value):
        return function(argument)
    if isinstance(argument, tuple):
        return tuple(map_values(a, function) for a in argument)
    return argument


def _by_bits(argument: Argument) -> Any:
    """A stand-in for a literal that is equal exactly where type and bits are."""
    cls = type(argument)
    if cls is tuple:
        return tuple(map(_by_bits, argument))
    if cls is float:
        return (cls, struct.pack("<d", argument))
    if cls is complex:
        return (cls, struct.pack("<dd", argument.real, argument.imag))
    return (cls, argument)


_OP_NAME = re.compile(r"^[A-Za-z_]\w*\.[A-Za-z_]\w*\.\w+$")


def _verify(graph: Graph) -> None:
    defined: dict[str, Value] = {}

    def fail(rule: str, what: str, node: Node | None = None) -> None:
        at = f"node %{node.name} = {node.op}" if node is not None else f"graph {graph.name!r}"
        raise GraphError(f"{rule}: {what}", where=f"{at}, {node.site}" if node is not None else at)

    def define(value: Value, node: Node | None) -> None:
        if value.name in defined:
            fail("G1", f"%{value.name} is defined twice", node)
        if not all(type(extent) is int and extent >= 0 for extent in value.shape):
            fail("G6", f"%{value.name} has shape {value.shape!r}; extents are non-negative ints", node)
        if value.scalar and value.shape:
            fail("G6", f"%{value.name} is a scalar and has shape {value.shape}", node)
        defined[value.name] = value

    def check_argument(argument: Argument, node: Node) -> None:
        if isinstance(argument, tuple):
            for item in argument:
                check_argument(item, node)
        elif isinstance(argument, Value):
            definition = defined.get(argument.name)
            if definition is None:
                fail("G2", f"%{argument.name} is used before it is defined", node)
            elif definition != argument:
                fail("G2", f"%{argument.name} is used as {argument}, but defined as {definition}", node)
        elif type(argument) not in _LITERALS:  # exactly: a NumPy float is a float, and would not print as one
            fail("G4", f"an argument is a {type(argument).__name__}: {argument!r}", node)

    for entry in graph.inputs:
        define(entry.value, None)
    for node in graph.nodes:
        if not _OP_NAME.match(node.op):
            fail("G3", f"{node.op!r} is not namespace.name.overload", node)
        for argument in (*node.args, *(a for _, a in node.kwargs)):
            check_argument(argument, node)
        keywords = [keyword for keyword, _ in node.kwargs]
        for keyword in keywords:
            if not keyword.isidentifier() or keywords.count(keyword) > 1:
                fail("G4", f"{keyword!r} is not a keyword, or is given twice", node)
        for value in node.outputs:
            if value is not None:
                define(value, node)
    targets = {entry.value.name: entry.value for entry in graph.inputs}
    for output in graph.outputs:
        if output.value is not None and defined.get(output.value.name) != output.value:
            fail("G5", f"output %{output.value.name} is not defined as {output.value}")
        if output.kind == "result" and output.target:
            fail("G5", f"a result has the target %{output.target}; only a mutation has one")
        if output.kind == "mutation":
            target = targets.get(output.target)
            if target is None or output.value is None:
                fail("G5", f"a mutation writes %{output.target}, which is not an input")
            elif (target.dtype, target.shape) != (output.value.dtype, output.value.shape):
                fail("G5", f"a mutation writes {output.value} to %{output.target}, which is {target}")

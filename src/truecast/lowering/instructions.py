"""Which node each StableHLO instruction computes, those without a name of their own included.

jax names an instruction after the scope it was traced in. Three kinds have no scope of their own, and get
their nodes here: an instruction inside a loop body, a comparator or a reducer has its enclosing
instruction's; one in a function that jax outlined, those of the function's calls; a constant, those of its
users, since jax shares constants.

Reads the MLIR module that `jax.stages.Lowered.compiler_ir` returns, through that object's own methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from truecast.graph import Node

# Operations that hold others, or hand values on; they compute nothing.
_STRUCTURE = frozenset(("builtin.module", "func.func", "func.return", "stablehlo.return"))


@dataclass(frozen=True)
class Instruction:
    """One StableHLO operation: its name ("stablehlo.multiply"), its result types, and the nodes it computes for:
    one, or several where it is shared between them."""

    operation: str
    types: tuple[str, ...]
    nodes: tuple[Node, ...]


def instructions(module: Any, node_of: Callable[[str], Node | None]) -> tuple[Instruction, ...]:
    """Every instruction of a module, in the order of its text."""
    return tuple(_Walk(module, node_of).run())


class _Walk:
    def __init__(self, module: Any, node_of: Callable[[str], Node | None]) -> None:
        self.node_of = node_of
        self.functions = {f.attributes["sym_name"].value: f.operation for f in module.body.operations}
        self.callers: dict[str, dict[str, Node]] = {name: {} for name in self.functions}

    def run(self) -> Iterator[Instruction]:
        pending = ["main"]
        while pending:  # calls don't recurse, so the callers' nodes settle
            name = pending.pop()
            for operation, inherited in self.operations(name):
                if operation.name != "func.call":
                    continue
                callee = operation.attributes["callee"].value
                known = len(self.callers[callee])
                self.callers[callee].update((n.name, n) for n in self.nodes(operation, inherited))
                if len(self.callers[callee]) > known:
                    pending.append(callee)
        for name in self.functions:
            for operation, inherited in self.operations(name):
                if operation.name not in _STRUCTURE:
                    types = tuple(str(result.type) for result in operation.results)
                    yield Instruction(operation.name, types, self.nodes(operation, inherited))

    def operations(self, function: str) -> Iterator[tuple[Any, tuple[Node, ...]]]:
        """Each operation of a function, with the nodes of what encloses it."""
        yield from self.inside(self.functions[function], tuple(self.callers[function].values()))

    def inside(self, operation: Any, inherited: tuple[Node, ...]) -> Iterator[tuple[Any, tuple[Node, ...]]]:
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    yield inner.operation, inherited
                    if len(inner.operation.regions):
                        yield from self.inside(inner.operation, self.nodes(inner.operation, inherited))

    def nodes(self, operation: Any, inherited: tuple[Node, ...]) -> tuple[Node, ...]:
        own = self.node_of(getattr(operation.location, "name_str", ""))  # only a named location has one
        if own is not None:
            return (own,)
        if inherited or operation.name != "stablehlo.constant":
            return inherited
        users = (use.owner for result in operation.results for use in result.uses)
        found = {n.name: n for user in users for n in self.nodes(_outermost(user), ())}
        return tuple(found.values())


def _outermost(operation: Any) -> Any:
    """The operation of the function's own block that an operation stands in: it has a scope, if any has."""
    while operation.parent is not None and operation.parent.name != "func.func":
        operation = operation.parent
    return operation.operation

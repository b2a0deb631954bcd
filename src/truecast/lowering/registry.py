"""Which function computes which ATen overload in jax.lax. One rule per overload or family of overloads.

A rule never casts (law N2): the engine hands it operands in the compute dtype and converts what it returns.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from truecast.errors import UnsupportedError
from truecast.graph import Node

Lowering = Callable[..., Any]
_RULES: dict[str, Lowering] = {}


def register(names: str, rule: Lowering) -> Lowering:
    """`rule` computes each of the space-separated names: "mul" (every functional overload of aten::mul that has
    no rule of its own) or "mul.Tensor"; another namespace is written out ("prims.sum").

    Raises ValueError if a name has a rule already.
    """
    for name in names.split():
        if name in _RULES:
            raise ValueError(f"two lowering rules claim {name!r}")
        _RULES[name] = rule
    return rule


def lowers(names: str) -> Callable[[Lowering], Lowering]:
    """Decorator form of `register`."""
    return lambda rule: register(names, rule)


def find(op: str) -> Lowering | None:
    """The rule for "aten.mul.Tensor", or None."""
    namespace, name, variant = op.split(".")
    prefix = "" if namespace == "aten" else f"{namespace}."
    return _RULES.get(f"{prefix}{name}.{variant}") or _RULES.get(prefix + name)


def rule_for(node: Node) -> Lowering:
    """The rule for a node. Raises UnsupportedError naming the overload, the source line and how to add it."""
    rule = find(node.op)
    if rule is not None:
        return rule
    near = difflib.get_close_matches(node.op.split(".")[1], [n.split(".")[0] for n in _RULES], n=1)
    raise UnsupportedError(
        f"{node.op} has no lowering rule",
        where=node.site,
        values=", ".join(map(str, node.inputs)),
        why="truecast lowers what its table covers and never guesses"
        + (f"; the nearest covered operation is aten.{near[0]}" if near else ""),
        help="add a row in ops/ and a rule in lowering/ (CONTRIBUTING.md, 'Add an operation'), or write it with covered"
        " operations",
    )


def covered() -> frozenset[str]:
    """Every name that has a rule."""
    return frozenset(_RULES)

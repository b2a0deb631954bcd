"""Which casts make an operation accept its operands, and a node as it is typed after them (law N12).

Imports the leaves and graph. One answer for capture, which runs the operation so, for the Plan, which shows the
casts, and for the lowering, which makes them.
"""

from __future__ import annotations

from dataclasses import replace

from truecast.dtypes import DType
from truecast.graph import Argument, Node, map_values, values_in
from truecast.ops import contracts
from truecast.ops.operands import bound
from truecast.ops.table import Op

Casts = tuple[tuple[str, DType], ...]  # (schema argument, dtype)


def agreeing_casts(node: Node, op: Op) -> tuple[Casts, contracts.Violation | None]:
    """The casts after which a call breaks no demand; and the demand that is broken still, where no cast mends it."""
    casts: Casts = ()
    while (violation := contracts.check(with_casts(node, casts), op)) is not None:
        more = _agreement(node, op, violation)
        if not set(more) - set(casts):
            return casts, violation
        casts = tuple((dict(casts) | dict(more)).items())
    return casts, None


def _agreement(node: Node, op: Op, violation: contracts.Violation) -> Casts:
    """The casts after which all operands that must agree with the violation's do: they follow the weight's dtype.

    Demands that share an operand are one (input with bias, input with weight), so that a chain of them has one leader:
    the last one that a demand names, else the first operand.
    """
    if not violation.casts:
        return ()
    arguments = bound(node)
    group = {name for name, _ in violation.operands}
    leader, chained = "", True
    while chained:
        related = [c for c in op.contracts if c.demand == "same" and group & set(c.operands)]
        found = group | {name for c in related for name in c.operands if arguments.get(name) is not None}
        chained, group = found != group, found
        leader = next((c.follow for c in reversed(related) if c.follow in group), "")
    if not leader:
        return violation.casts
    dtype = next(values_in((arguments[leader],))).dtype
    return tuple((name, dtype) for name in arguments if name in group and _differs(arguments[name], dtype))


def _differs(argument: Argument, dtype: DType) -> bool:
    return any(value.dtype is not dtype for value in values_in((argument,)))


def with_casts(node: Node, casts: Casts) -> Node:
    """The node as it is typed once `casts` are done: its operands' dtypes changed, its outputs as they were."""
    if not casts:
        return node
    targets = dict(casts)

    def cast(name: str, argument: Argument) -> Argument:
        if name not in targets:
            return argument
        return map_values(argument, lambda value: replace(value, dtype=targets[name]))

    return replace(node, args=(), kwargs=tuple((name, cast(name, a)) for name, a in bound(node).items()))

"""Where an operation refuses its operands' dtypes (law N12): PyTorch's error, or casts that the Plan shows.

Imports the leaves, graph and ops. The demands themselves are in ops/contracts.py.
"""

from __future__ import annotations

from dataclasses import replace

from truecast.dtypes import DType
from truecast.errors import ContractError
from truecast.graph import Argument, Node, map_values, values_in
from truecast.ops import contracts
from truecast.ops.operands import bound
from truecast.ops.table import Op

Casts = tuple[tuple[str, DType], ...]


def casts_for(node: Node, op: Op, on_mismatch: str) -> Casts:
    """The operands of `node` to convert before it runs, as (schema argument, dtype); () where its dtypes agree.

    Raises ContractError, with PyTorch's own exception in it, where they don't and `on_mismatch` is "error", and where
    no cast would make them agree.
    """
    casts: Casts = ()
    while (violation := contracts.check(with_casts(node, casts), op)) is not None:
        more = () if on_mismatch == "error" else _agreement(node, op, violation)
        if not set(more) - set(casts):
            raise _refusal(node, violation, on_mismatch) from violation.raised()
        casts = tuple((dict(casts) | dict(more)).items())
    return casts


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


def _refusal(node: Node, violation: contracts.Violation, on_mismatch: str) -> ContractError:
    operands = ", ".join(f"{name} {dtype}" for name, dtype in violation.operands)
    if violation.casts:
        casts = ", ".join(f"{name} to {dtype}" for name, dtype in violation.casts)
        help = f'cast {casts} in the program, or let the policy do it: on_mismatch = "cast"'
    else:
        help = "change the program: no cast of an operand makes this operation accept them" * (on_mismatch == "cast")
    return ContractError(
        violation.raised(),
        where=node.site,
        values=f"{node.op}: {operands}",
        why="PyTorch eager refuses these dtypes (law N12)",
        help=help or None,
    )

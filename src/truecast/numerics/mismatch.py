"""Where an operation refuses its operands' dtypes (law N12): PyTorch's error, or casts that the Plan shows.

Imports the leaves, graph and ops. The demands are in ops/contracts.py, the casts in ops/agreement.py.
"""

from __future__ import annotations

from truecast.errors import ContractError
from truecast.graph import Node
from truecast.ops import contracts
from truecast.ops.agreement import Casts, agreeing_casts
from truecast.ops.table import Op


def casts_for(node: Node, op: Op, on_mismatch: str) -> Casts:
    """The operands of `node` to convert before it runs, as (schema argument, dtype); () where its dtypes agree.

    Raises ContractError, with PyTorch's own exception in it, where they don't and `on_mismatch` is "error", and where
    no cast would make them agree.
    """
    casts, violation = ((), contracts.check(node, op)) if on_mismatch == "error" else agreeing_casts(node, op)
    if violation is not None:
        raise _refusal(node, violation, on_mismatch) from violation.raised()
    return casts


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

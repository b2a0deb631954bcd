"""What each ATen operation means for dtypes: one table, its rows in one file a family."""

from __future__ import annotations

import functools
from dataclasses import replace

from truecast.ops import (
    attention,
    composite,
    contraction,
    convolution,
    creation,
    elementwise,
    foreign,
    indexing,
    linalg,
    loss,
    movement,
    normalization,
    optimizer,
    pooling,
    random,
    reduction,
    sorting,
)
from truecast.ops.contract_rows import CONTRACTS
from truecast.ops.table import Contract, Kind, Op, Promotion

__all__ = ["Contract", "Kind", "Op", "Promotion", "lookup", "table"]

_FAMILIES = (
    attention,
    composite,
    contraction,
    convolution,
    creation,
    elementwise,
    foreign,
    indexing,
    linalg,
    loss,
    movement,
    normalization,
    optimizer,
    pooling,
    random,
    reduction,
    sorting,
)


@functools.cache
def table() -> dict[str, Op]:
    """Every row, by each of its names. Raises ValueError if two rows claim a name."""
    found: dict[str, Op] = {}
    for family in _FAMILIES:
        for op in family.ROWS:
            for name in op.names:
                if name in found:
                    raise ValueError(f"two rows in ops/ claim {name!r}")
                found[name] = op
    for name, contracts in CONTRACTS.items():
        row = found.get(name) or found[name.split(".")[0]]
        found[name] = replace(row, contracts=contracts)
    return found


@functools.cache
def lookup(op: str) -> Op | None:
    """The row of "aten.add.Tensor" (the overload's own, else its name's); None if there is none.

    An in-place or out form has the row of its functional form.
    """
    namespace, name, variant = op.split(".")
    prefix = "" if namespace == "aten" else f"{namespace}."
    rows = table()
    functional = name.removesuffix("_")
    for candidate in (f"{name}.{variant}", f"{functional}.{variant}", name, functional):
        if prefix + candidate in rows:
            return rows[prefix + candidate]
    return None

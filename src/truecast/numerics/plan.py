"""Graph + Numerics, resolved: one Decision per node, in plain data. A Plan never edits its Graph."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import cast

from truecast import dtypes, ops
from truecast.dtypes import DType
from truecast.graph import Graph, Node
from truecast.numerics.numerics import Numerics, Rounding, Rule
from truecast.ops.operands import promoted_dtype
from truecast.ops.table import Op

# Kinds whose nodes do arithmetic that a policy has a say in; the others move, create or convert values.
ARITHMETIC = frozenset(
    ("elementwise", "reduction", "scan", "contraction", "convolution", "normalization", "attention", "pooling", "loss")
    + ("linalg", "optimizer", "composite")
)

# Kinds that multiply two operands and sum the products: they have an algorithm (law N5).
PRODUCTS = frozenset(("contraction", "convolution", "attention"))


@dataclass(frozen=True, slots=True)
class Decision:
    """How one node is computed.

    compute: the dtype the arithmetic runs in, None where there is none (movement, creation, casts).
    accumulate: the dtype sums are held in, None where nothing is summed. rounding: law N3.
    algorithm: how a contraction forms its products, "" for one pass in `compute`. region: the number of the
    elementwise region (rounding = "region") the node belongs to, 0 for none.
    casts: operands converted because of on_mismatch = "cast" (law N12): (schema argument, dtype).
    rule: the rule that decided the compute dtype; why: the same in words.
    """

    compute: DType | None
    accumulate: DType | None
    rounding: Rounding
    algorithm: str = ""
    region: int = 0
    casts: tuple[tuple[str, DType], ...] = ()
    rule: Rule | None = None
    why: str = ""


@dataclass(frozen=True)
class Plan:
    graph: Graph
    numerics: Numerics
    decisions: tuple[Decision, ...]


def resolve(graph: Graph, numerics: Numerics) -> Plan:
    """One Decision per node of `graph` under `numerics`."""
    return Plan(graph, numerics, tuple(_decide(node, numerics) for node in graph.nodes))


def _decide(node: Node, numerics: Numerics) -> Decision:
    op = ops.lookup(node.op)
    if op is None or not (op.kind in ARITHMETIC or op.accumulates):
        return Decision(None, None, "op", why="no arithmetic")
    promoted = promoted_dtype(node, op)
    matching = [r for r in numerics.rules if _matches(r, node, op, promoted, numerics)]

    def first(setting: str, default: str) -> tuple[str, Rule | None]:
        for rule in matching:
            if getattr(rule, setting):
                return getattr(rule, setting), rule
        return default, None

    # Products of two 16-bit floats are exact in float32, so contractions need no wider operands, only the accumulator.
    compute_setting, rule = first("compute", "same" if op.kind in PRODUCTS else "opmath")
    accumulate_setting, _ = first("accumulate", "opmath")
    rounding, _ = first("rounding", "op")
    algorithm, _ = first("algorithm", "")
    stored = _storage(numerics)
    compute = stored(_dtype(compute_setting, promoted))
    accumulate = stored(_dtype(accumulate_setting, promoted)) if op.accumulates else None
    why = f"{rule.op or rule.kind or 'every op'}: {compute_setting}" if rule else f"default: {compute_setting}"
    return Decision(
        compute if op.kind in ARITHMETIC else None,
        accumulate,
        cast(Rounding, rounding),
        algorithm if op.kind in PRODUCTS else "",
        rule=rule,
        why=why,
    )


def _dtype(setting: str, promoted: DType) -> DType:
    if setting == "same" or not promoted.is_inexact:
        return promoted
    if setting == "opmath":
        return dtypes.opmath(promoted)
    named = dtypes.of(setting)
    return dtypes.complex_of(named) if promoted.category == "complex" else named


def _storage(numerics: Numerics) -> Callable[[DType], DType]:
    table = {dtypes.of(a): dtypes.of(b) for a, b in numerics.storage}
    return lambda dtype: table.get(dtype, dtype)


def _matches(rule: Rule, node: Node, op: Op, promoted: DType, numerics: Numerics) -> bool:
    site = node.site
    base = os.path.basename(site.file)
    return (
        (not rule.op or fnmatchcase(node.op, rule.op))
        and (not rule.kind or op.kind in rule.kind.split("|"))
        and (not rule.dtype or any(_in_group(promoted, part) for part in rule.dtype.split("|")))
        and (not rule.target or rule.target == numerics.target)
        and (not rule.module or fnmatchcase(site.module, rule.module))
        and (not rule.source or any(fnmatchcase(s, rule.source) for s in (base, f"{base}:{site.line}")))
    )


def _in_group(dtype: DType, group: str) -> bool:
    if group == "narrow":
        return dtype.is_narrow
    return group in (dtype.name, dtype.category)

"""The audit of a Program of truecast's own: each row leads back to its node, its source line and the rule.

Reads the Program as plain data: its Graph, its Plan, its texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from truecast import dtypes, ops
from truecast.diagnose.audit.result import Asked, Audit, Row
from truecast.diagnose.audit.rows import Origin, events, summed
from truecast.diagnose.hlo import Instruction, Metadata, read_text
from truecast.diagnose.hlo.module import CONVERTS, ROUNDINGS
from truecast.dtypes import DType
from truecast.graph import Graph, Node, Value
from truecast.numerics.plan import Decision, Plan
from truecast.ops.agreement import with_casts
from truecast.ops.operands import promoted_dtype


class Lowered(Protocol):
    """What an audit needs of a Program."""

    @property
    def graph(self) -> Graph: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def stablehlo_with_locations(self) -> str: ...
    @property
    def optimized_hlo(self) -> str: ...
    def held(self, value: Value) -> DType: ...
    def node_of(self, op_name: str) -> Node | None: ...


def audited_program(program: Lowered, optimized: bool = False) -> Audit:
    """The audit of a Program's StableHLO, or of what the target's compiler made of it."""
    numerics = program.plan.numerics.name
    title = f"{program.graph.name} under {numerics}"
    origins = _PlanOrigins(program)
    before = read_text(program.stablehlo_with_locations, title)
    asked = [row for module in before for row in events(module, origins)]
    if not optimized:
        return summed(before, title, asked)
    after = read_text(program.optimized_hlo, title)
    origins.asked_for = frozenset((row.nodes, row.source, row.result) for row in asked if row.kind == "convert")
    found = [row for module in after for row in events(module, origins)]
    return summed(after, f"{title}, optimized", [*found, *_removed(program, asked, found)])


class _PlanOrigins:
    """asked_for: the converts of the StableHLO; None while that is read itself. What is in the optimized program and
    not among them is the compiler's own."""

    def __init__(self, program: Lowered) -> None:
        self.program = program
        self.decisions = {node.name: decision for node, decision in program.plan.pairs()}
        self.asked_for: frozenset[tuple[tuple[str, ...], str, str]] | None = None

    def of(self, instruction: Instruction, own: Metadata, inherited: Metadata) -> Origin:
        own_node = self.program.node_of(own.op_name)
        node = own_node or self.program.node_of(inherited.op_name)
        is_convert = instruction.operation in CONVERTS
        if node is None:
            return Origin(asked="nobody" if is_convert else "", why="no node of the program computes it" * is_convert)
        decision = self.decisions[node.name]
        asked, rule, why = self._asked(instruction, node, decision, is_own=own_node is not None)
        site = node.site
        place = (site.file, site.line, site.column, site.function)
        return Origin(node.op, *place, asked=asked, rule=rule, why=why, node=node.name)

    def _asked(self, instruction: Instruction, node: Node, decision: Decision, is_own: bool) -> tuple[Asked, str, str]:
        operation = instruction.operation
        if operation in ROUNDINGS:
            return "plan", *_rule(decision, "rounding", f"rounding = {decision.rounding}")
        if operation not in CONVERTS:
            return "", *_summing_rule(decision)
        source = instruction.operands[0] if instruction.operands else None
        if source is None or not instruction.results:
            return "unknown", "", ""
        pair = (source.dtype, instruction.results[0].dtype)
        if self.asked_for is not None and not (is_own and ((node.name,), *map(str, pair)) in self.asked_for):
            return "nobody", "", "the compiler put it in"
        return self._reason(node, decision, *pair)

    def _reason(self, node: Node, decision: Decision, source: DType, result: DType) -> tuple[Asked, str, str]:
        """Who asked that `node` takes a value from `source` to `result`."""
        op = ops.lookup(node.op)
        operands = {self.program.held(value) for value in node.inputs}
        results = {self.program.held(value) for value in node.outputs if value is not None}
        if op is None:
            return "unknown", "", "the operations table has no row for it"
        if op.kind == "cast" and result in results:
            return "program", "", "a cast"
        if source in operands and any(result is dtype for _, dtype in decision.casts):
            return "plan", "", "on_mismatch = cast (law N12)"
        promoted = promoted_dtype(with_casts(node, decision.casts), op)
        if source in operands and result is promoted and source is not promoted:
            return "program", "", f"promotion to {promoted} (law N1)"
        if not (source.is_inexact and result.is_inexact):
            return "lowering", "", "an index, a condition or a counter"
        own, planned = operands | results, {decision.compute, decision.accumulate}
        if {source, result} <= own | planned:
            settings = (("compute", decision.compute), ("accumulate", decision.accumulate))
            said = [(setting, dtype) for setting, dtype in settings if dtype in (source, result)]
            if said:  # the one that brings in a dtype which neither operands nor results have
                setting, dtype = next((s for s in said if s[1] not in own), said[0])
                return "plan", *_rule(decision, setting, f"{setting} = {dtype}")
        elif decision.algorithm:
            return "plan", *_rule(decision, "algorithm", f"algorithm = {decision.algorithm}")
        if any(self.program.held(value) is not value.dtype for value in (*node.inputs, *node.outputs) if value):
            return "plan", "", "storage (law N11)"
        return "nobody", "", "neither the program nor the Plan says so"


def _rule(decision: Decision, setting: str, otherwise: str) -> tuple[str, str]:
    """The rule that decided a setting, and in words why."""
    rule = dict(decision.decided_by).get(setting)
    if rule is None:
        return "", f"{otherwise} by default" if otherwise else ""
    return rule.matches, otherwise or ", ".join(f"{name} = {value}" for name, value in rule.settings.items())


def _summing_rule(decision: Decision) -> tuple[str, str]:
    """The rule that decides what a product or a sum is held in, and what it says of that."""
    decided = dict(decision.decided_by)
    rule = decided.get("accumulate") or decided.get("algorithm") or decided.get("compute")
    if rule is None:
        return "", ""
    settings = {name: value for name, value in rule.settings.items() if name != "rounding"}
    return rule.matches, ", ".join(f"{name} = {value}" for name, value in settings.items())


def _removed(program: Lowered, asked: list[Row], found: list[Row]) -> Iterator[Row]:
    """The program's casts that the optimized program lacks.

    A cast that rounds is gone if no convert leads back to it, nor to a cast of the same value to the same dtype (of two
    equal ones XLA keeps one). A cast that widens does no harm by being gone, unless the rounding that it reads is gone
    too: a product whose 16-bit result has become the accumulator's dtype. Neither is said where the compiler has put in
    roundings of its own to that dtype, without a node: one of them may stand for it.
    """
    nodes = {node.name: node for node in program.graph.nodes}
    producers = program.graph.producers()
    rounded_by_compiler = {row.result for row in found if row.kind == "convert" and row.asked == "nobody"}
    products = {name: row.result for row in asked if row.kind == "contraction" for name in row.nodes}
    results = {(name, row.result) for row in found if row.kind in ("contraction", "convert") for name in row.nodes}
    casts = [row for row in asked if row.kind == "convert" and row.asked == "program" and row.is_floating and row.nodes]

    def twin(row: Row) -> tuple[str, str]:
        operand = next(iter(nodes[row.nodes[0]].inputs), None)
        return (operand.name if operand is not None else "", row.result)

    kept = {name for row in found if row.kind == "convert" and row.asked == "program" for name in row.nodes}
    known = {twin(row) for row in casts if row.nodes[0] in kept}
    for row in casts:
        if twin(row) in known:
            continue
        known.add(twin(row))
        producer = producers.get(twin(row)[0])
        if _bits(row.result) < _bits(row.source):
            if row.result not in rounded_by_compiler:
                yield _gone(row, "nothing in the optimized program rounds here")
            continue
        if producer is None or products.get(producer.name) != row.source:
            continue
        if (producer.name, row.source) not in results and row.source not in rounded_by_compiler:
            yield _gone(row, f"{producer.op} no longer rounds its result to {row.source}")


def _bits(name: str) -> int:
    return dtypes.of(name).mantissa_bits


def _gone(row: Row, why: str) -> Row:
    return replace(row, kind="removed", why=why, text_lines=())

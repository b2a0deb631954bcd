"""A Plan, and the difference of two, as text that a person reads: grouped by source line, fitted to the terminal.

Imports graph, sites and its own package; prints nothing. Nodes without floating arithmetic are counted,
not listed; equal rows of one source line are listed once with their number.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from truecast.graph import Node
from truecast.numerics.diff import PlanDiff, rounds
from truecast.numerics.numerics import Rule
from truecast.numerics.plan import Conflict, Decision, Plan
from truecast.numerics.policy_text import preset_file
from truecast.sites import Site

_NARROWEST = 60
_HEADINGS = ("node", "operation", "types", "compute", "sum", "rounding", "by")


def render(plan: Plan, width: int = 0) -> str:
    """The Plan as a table, `width` columns wide; 0 asks the terminal (COLUMNS, else 120)."""
    width = _width(width)
    names = _references(plan.numerics.rules)
    lines = [*_header(plan, width), ""]
    deciding: set[Rule] = set()
    for members in _by_line(plan.pairs()):
        rows = [_row(alike, names) for alike in _alike(members)]
        lines += [*_heading([node.site for node, _ in members], width), *_table(rows, width), ""]
        deciding.update(rule for _, decision in members for _, rule in decision.decided_by if rule is not None)
    lines += _legend({rule: name for rule, name in names.items() if rule in deciding}, width)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def render_diff(difference: PlanDiff, width: int = 0) -> str:
    """The nodes that two Plans decide differently, by source line: each field as "left -> right"."""
    width = _width(width)
    a, b = difference.a.numerics, difference.b.numerics
    nodes = len(difference.a.graph.nodes)
    lines = [
        f"{a.name} -> {b.name}: {len(difference.differences)} of {nodes} nodes differ in {difference.a.graph.name!r}"
    ]
    if a.storage != b.storage:
        lines += [*_storage(difference.a, width), *_storage(difference.b, width)]
    for _, found in difference.by_line():
        counted: dict[tuple[str, ...], int] = {}
        for entry in found:
            changes = ", ".join(f"{f} {_said(entry.a, f)} -> {_said(entry.b, f)}" for f in entry.fields)
            key = (entry.node.op, _types(entry.node), changes)
            counted[key] = counted.get(key, 0) + 1
        lines += ["", *_heading([entry.node.site for entry in found], width)]
        for (op, types, changes), number in counted.items():
            lines += _wrapped(f"  {op}{_times(number)}  {types}", width, 6)
            lines += _wrapped(f"      {changes}", width, 8)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _width(width: int) -> int:
    return max(width or shutil.get_terminal_size((120, 0)).columns, _NARROWEST)


def _header(plan: Plan, width: int) -> Iterator[str]:
    numerics = plan.numerics
    idle = sum(map(_is_idle, plan.decisions))
    yield from _entry(f"Plan of {plan.graph.name!r} under {numerics.name!r}, for target {numerics.target}", "", width)
    yield from _entry(
        "nodes", f"{len(plan.decisions)}, of which {idle} do no floating arithmetic and are not listed", width
    )
    yield from _storage(plan, width)
    if numerics.subnormals != "target":
        yield from _entry("subnormals", numerics.subnormals, width)
    yield from _cast_lines(plan, width)
    members = Counter(decision.region for decision in plan.decisions if decision.region)
    if members:
        nodes = sum(members.values())
        yield from _entry("regions", f"{len(members)} elementwise, {nodes} nodes in all, rounded where they end", width)
    yield from _warnings(plan, width)
    yield from _entry("columns", f"{', '.join(_HEADINGS)}; #n numbers an elementwise region", width)


def _entry(name: str, text: str, width: int) -> list[str]:
    """One line of the header, its text in a column of its own; a title where there is no text."""
    if not text:
        return _wrapped(name, width, 2)
    return _wrapped(f"  {name:<10} {text}", width, 13)


def _cast_lines(plan: Plan, width: int) -> Iterator[str]:
    casting = [(node, decision) for node, decision in plan.pairs() if decision.casts]
    if casting:
        operands = sum(len(decision.casts) for _, decision in casting)
        text = f"{operands} operands are cast to agree with a weight (on_mismatch = cast, law N12)"
        yield from _entry("CASTS", text, width)
        for node, decision in casting:
            yield from _wrapped(f"{'':13}{node.site}: {_casts(decision)} of {node.op}", width, 15)


def _storage(plan: Plan, width: int) -> list[str]:
    if not plan.numerics.storage:
        return []
    held = ", ".join(f"every {program} is HELD AS {device}" for program, device in plan.numerics.storage)
    mapped = {program for program, _ in plan.numerics.storage}
    values = [entry.value for entry in plan.graph.inputs] + [v for n in plan.graph.nodes for v in n.outputs if v]
    count = sum(value.dtype.name in mapped for value in values)
    text = f"{plan.numerics.name}: {held}; .dtype does not say so (law N11); {count or 'no'} values here"
    return _entry("STORAGE", text, width)


def _warnings(plan: Plan, width: int) -> Iterator[str]:
    """Unused rules and conflicts of the user's own; of a preset's, which is made for every graph, only the number."""
    conflicts = [c for c in plan.conflicts if not _of_preset(c.rule)]
    late = [c.rule for c in conflicts]
    for rule in plan.unused:
        if not _of_preset(rule) and rule not in late:
            yield from _entry("unused", f"{rule}: decides nothing here", width)
    for conflict in conflicts:
        yield from _entry("conflict", _conflict(conflict), width)
    natural = sum(map(_of_preset, plan.unused))
    if natural:
        total = sum(map(_of_preset, plan.numerics.rules))
        yield from _entry("rules", f"{natural} of the preset's {total} decide nothing here", width)


def _of_preset(rule: Rule) -> bool:
    return rule.file.startswith(preset_file(""))


def _conflict(conflict: Conflict) -> str:
    always = "in any graph" if conflict.certain else "in this graph"
    nodes = "1 node" if conflict.nodes == 1 else f"{conflict.nodes} nodes"
    return f"{conflict.rule}: never decides {conflict.setting} {always}, since {conflict.by} comes first ({nodes})"


def _by_line(pairs: Iterable[tuple[Node, Decision]]) -> Iterable[list[tuple[Node, Decision]]]:
    groups: dict[tuple[str, int, str], list[tuple[Node, Decision]]] = {}
    for node, decision in pairs:
        if not _is_idle(decision):
            groups.setdefault((node.site.file, node.site.line, node.site.phase), []).append((node, decision))
    return groups.values()


def _is_idle(decision: Decision) -> bool:
    """Whether a node has no floating arithmetic, so that a policy has nothing to say of it."""
    dtypes = (decision.compute, decision.accumulate)
    return not decision.casts and not any(dtype is not None and dtype.is_inexact for dtype in dtypes)


@dataclass(slots=True)
class _Alike:
    """Nodes of one source line that are decided alike, but for the number of their region."""

    node: Node
    decision: Decision
    number: int = 0
    regions: set[int] = field(default_factory=set)


def _alike(members: Sequence[tuple[Node, Decision]]) -> Iterable[_Alike]:
    found: dict[tuple[object, ...], _Alike] = {}
    for node, decision in members:
        said = (decision.compute, decision.accumulate, decision.rounding, decision.algorithm, decision.casts)
        entry = found.setdefault((node.op, _types(node), said, decision.decided_by), _Alike(node, decision))
        entry.number += 1
        entry.regions |= {decision.region} - {0}
    return found.values()


def _row(alike: _Alike, names: Mapping[Rule, str]) -> tuple[str, ...]:
    node, decision = alike.node, alike.decision
    compute = "-" if decision.compute is None else str(decision.compute)
    rounding: str = decision.rounding if rounds(node, decision) else "-"
    if alike.regions:
        first, last = min(alike.regions), max(alike.regions)
        rounding += f" #{first}" if first == last else f" #{first}-{last}"
    return (
        f"%{node.name}{_times(alike.number)}",
        node.op,
        _types(node),
        f"{compute} {decision.algorithm}" if decision.algorithm else compute,
        "-" if decision.accumulate is None else str(decision.accumulate),
        rounding,
        _by(decision, names),
    )


def _by(decision: Decision, names: Mapping[Rule, str]) -> str:
    rules = dict.fromkeys(rule for setting, rule in decision.decided_by if setting in ("compute", "accumulate"))
    return ", ".join("default" if rule is None else names[rule] for rule in rules)


def _references(rules: Sequence[Rule]) -> dict[Rule, str]:
    """A short name for each rule: its file and line, or its number among those that were made in Python."""
    names: dict[Rule, str] = {}
    for rule in rules:
        given = sum(name.startswith("rule ") for name in names.values()) + 1
        names.setdefault(rule, rule.where.removeprefix(preset_file("")) or f"rule {given}")
    return names


def _times(number: int) -> str:
    return f" x{number}" if number > 1 else ""


def _types(node: Node) -> str:
    operands = [f"{v.dtype}{_extents(v.shape)}" for v in node.inputs]
    results = [f"{v.dtype}" for v in node.outputs if v is not None]
    return f"{' '.join(operands)} -> {' '.join(dict.fromkeys(results))}".strip()


def _extents(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _table(rows: Sequence[tuple[str, ...]], width: int) -> Iterator[str]:
    """Aligned columns; where they don't fit, what doesn't stands on lines of its own."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if 2 + sum(widths) + 2 * (len(widths) - 1) <= width:
        yield from ("  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
        return
    for name, op, types, *rest in rows:
        said = "  ".join(f"{heading} {cell}" for heading, cell in zip(_HEADINGS[3:], rest, strict=True) if cell != "-")
        yield from _wrapped(f"  {name}  {op}", width, 6)
        yield from _wrapped(f"      {types}", width, 8)
        yield from _wrapped(f"      {said}", width, 8)


def _heading(sites: Sequence[Site], width: int) -> list[str]:
    """The source line that some nodes come from, the module (the first of several), the phase, and its text."""
    site = sites[0]
    head = f"{os.path.basename(site.file)}:{site.line}" if site.file else "no source line"
    modules = list(dict.fromkeys(s.module for s in sites if s.module))
    if modules:
        head += f"  in {modules[0]}" + (f" and {len(modules) - 1} more" if modules[1:] else "")
    if site.phase != "forward":
        head += f"  ({site.phase})"
    source = site.text.strip()
    lines = _wrapped(head, width, 2)
    if source:
        lines.append(f"  | {source}"[:width])
    return lines


def _legend(names: Mapping[Rule, str], width: int) -> Iterator[str]:
    for rule, name in names.items():
        said = ", ".join(f"{setting} = {value}" for setting, value in rule.settings.items())
        yield from _wrapped(f"{name}: {rule.matches}: {said}", width, 4)
        if rule.note:
            yield from _wrapped(f"    {rule.note}", width, 4)


def _said(decision: Decision, field: str) -> str:
    if field == "casts":
        return _casts(decision) or "none"
    value = getattr(decision, field)
    return "none" if value in (None, "") else str(value)


def _casts(decision: Decision) -> str:
    return ", ".join(f"{name} to {dtype}" for name, dtype in decision.casts)


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=" " * indent, break_on_hyphens=False)

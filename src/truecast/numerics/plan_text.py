"""A Plan, and the difference of two, as text that a person reads: grouped by source line, fitted to the terminal.

Imports graph, sites and its own package; prints nothing. Nodes that only move, create or convert values are counted,
not listed; equal rows of one source line are listed once with their number.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from truecast.graph import Node
from truecast.numerics.diff import PlanDiff, rounds
from truecast.numerics.numerics import Numerics, Rule
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
    for site, members in _by_line(plan.pairs()):
        rows = [_row(node, decision, number, names) for node, decision, number in _counted(members)]
        lines += _table(rows, site, width)
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
        lines += [*_storage(a, width), *_storage(b, width)]
    for site, found in difference.by_line():
        counted: dict[tuple[str, ...], int] = {}
        for entry in found:
            changes = ", ".join(f"{f} {_said(entry.a, f)} -> {_said(entry.b, f)}" for f in entry.fields)
            key = (entry.node.op, _types(entry.node), changes)
            counted[key] = counted.get(key, 0) + 1
        lines += ["", *_heading(site, width)]
        for (op, types, changes), number in counted.items():
            lines.append(f"  {op}{_times(number)}  {types}")
            lines.append(f"      {changes}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _width(width: int) -> int:
    return max(width or shutil.get_terminal_size((120, 0)).columns, _NARROWEST)


def _header(plan: Plan, width: int) -> Iterator[str]:
    numerics = plan.numerics
    idle = sum(map(_is_idle, plan.decisions))
    yield f"Plan of {plan.graph.name!r} under {numerics.name!r}, for target {numerics.target}"
    yield f"  nodes      {len(plan.decisions)}, of which {idle} only move, create or convert values and are not listed"
    yield from _storage(numerics, width)
    if numerics.subnormals == "flush":
        yield "  SUBNORMALS are flushed to zero"
    yield from _cast_lines(plan)
    members = Counter(decision.region for decision in plan.decisions if decision.region)
    if members:
        nodes = sum(members.values())
        yield f"  regions    {len(members)} elementwise, of {nodes} nodes, rounded where they end (law N3)"
    yield from _warnings(plan, width)
    yield f"  columns    {', '.join(_HEADINGS)}; region #n names an elementwise region"


def _cast_lines(plan: Plan) -> Iterator[str]:
    casting = [(node, decision) for node, decision in plan.pairs() if decision.casts]
    if casting:
        operands = sum(len(decision.casts) for _, decision in casting)
        yield f"  CASTS      {operands} operands are cast to agree with a weight (on_mismatch = cast, law N12)"
        yield from (f"               {node.site}: {_casts(decision)} of {node.op}" for node, decision in casting)


def _storage(numerics: Numerics, width: int) -> Iterator[str]:
    if not numerics.storage:
        return
    held = ", ".join(f"every {program} is HELD AS {device}" for program, device in numerics.storage)
    text = f"STORAGE    {numerics.name}: {held}; .dtype does not say so (law N11)"
    yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent=" " * 13)


def _warnings(plan: Plan, width: int) -> Iterator[str]:
    """Unused rules and conflicts of the user's own; of a preset's, which is made for every graph, only the number."""
    conflicts = [c for c in plan.conflicts if not _of_preset(c.rule)]
    late = [c.rule for c in conflicts]
    for rule in plan.unused:
        if not _of_preset(rule) and rule not in late:
            yield from _wrapped(f"  unused     {rule}: decides nothing here", width)
    for conflict in conflicts:
        yield from _wrapped(f"  conflict   {_conflict(conflict)}", width)
    natural = sum(map(_of_preset, plan.unused))
    if natural:
        total = sum(map(_of_preset, plan.numerics.rules))
        yield f"  rules      {natural} of the preset's {total} decide nothing here"


def _of_preset(rule: Rule) -> bool:
    return rule.file.startswith(preset_file(""))


def _conflict(conflict: Conflict) -> str:
    always = "in any graph" if conflict.certain else "in this graph"
    nodes = "1 node" if conflict.nodes == 1 else f"{conflict.nodes} nodes"
    return f"{conflict.rule}: never decides {conflict.setting} {always}, since {conflict.by} comes first ({nodes})"


def _by_line(
    pairs: Iterable[tuple[Node, Decision]],
) -> Iterator[tuple[Site, list[tuple[Node, Decision]]]]:
    groups: dict[tuple[str, int, str], list[tuple[Node, Decision]]] = {}
    for node, decision in pairs:
        if not _is_idle(decision):
            groups.setdefault((node.site.file, node.site.line, node.site.phase), []).append((node, decision))
    for members in groups.values():
        yield members[0][0].site, members


def _is_idle(decision: Decision) -> bool:
    """Whether a node only moves, creates or converts values, so that there is nothing to tell."""
    return decision.compute is None and decision.accumulate is None and not decision.casts


def _counted(members: Sequence[tuple[Node, Decision]]) -> Iterator[tuple[Node, Decision, int]]:
    counts: dict[tuple[object, ...], list[object]] = {}
    for node, decision in members:
        entry = counts.setdefault((node.op, _types(node), decision), [node, decision, 0])
        entry[2] += 1  # type: ignore[operator]
    yield from counts.values()  # type: ignore[misc]


def _row(node: Node, decision: Decision, number: int, names: Mapping[Rule, str]) -> tuple[str, ...]:
    compute = "-" if decision.compute is None else str(decision.compute)
    rounding = decision.rounding if rounds(node, decision) else "-"
    return (
        f"%{node.name}{_times(number)}",
        node.op,
        _types(node),
        f"{compute} {decision.algorithm}" if decision.algorithm else compute,
        "-" if decision.accumulate is None else str(decision.accumulate),
        f"{rounding} #{decision.region}" if decision.region else rounding,
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


def _table(rows: Sequence[tuple[str, ...]], site: Site, width: int) -> list[str]:
    """Aligned columns; where they don't fit, the types stand on a line of their own."""
    lines = _heading(site, width)
    widths = [max(map(len, column)) for column in zip(*rows, _HEADINGS, strict=True)]
    if 2 + sum(widths) + 2 * (len(widths) - 1) <= width:
        return [*lines, *("  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows), ""]
    for row in rows:
        first = "  ".join(c.ljust(w) for c, w in zip(row[:2], widths[:2], strict=True))
        lines += ["  " + first, *textwrap.wrap(row[2], width, initial_indent="      ", subsequent_indent="      ")]
        lines.append("      " + "  ".join(f"{h} {c}" for h, c in zip(_HEADINGS[3:], row[3:], strict=True) if c != "-"))
    return [*lines, ""]


def _heading(site: Site, width: int) -> list[str]:
    where = f"{os.path.basename(site.file)}:{site.line}" if site.file else "no source line"
    module = f"  in {site.module}" if site.module else ""
    phase = f"  ({site.phase})" if site.phase != "forward" else ""
    head = f"{where}{module}{phase}"
    source = site.text.strip()
    return [head if not source else f"{head}  {source}"[:width]]


def _legend(names: Mapping[Rule, str], width: int) -> Iterator[str]:
    for rule, name in names.items():
        said = ", ".join(f"{setting} = {value}" for setting, value in rule.settings.items())
        yield from textwrap.wrap(f"{name}: {rule.matches}: {said}", width, subsequent_indent="    ")
        if rule.note:
            yield from textwrap.wrap(rule.note, width, initial_indent="    ", subsequent_indent="    ")


def _said(decision: Decision, field: str) -> str:
    if field == "casts":
        return _casts(decision) or "none"
    value = getattr(decision, field)
    return "none" if value in (None, "") else str(value)


def _casts(decision: Decision) -> str:
    return ", ".join(f"{name} to {dtype}" for name, dtype in decision.casts)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=" " * 15)

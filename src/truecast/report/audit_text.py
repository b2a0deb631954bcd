"""An audit, and the difference of two, as a person reads them: the figures, then what happens on each source line."""

from __future__ import annotations

import itertools
import linecache
import os
from collections.abc import Iterable, Iterator, Sequence

from truecast.diagnose.audit.diff import AuditDiff, Change
from truecast.diagnose.audit.result import Audit, Row

_TITLES = {
    "convert": "convert",
    "rounding": "rounding",
    "contraction": "product",
    "accumulation": "16-bit sum",
    "float64": "float64",
    "removed": "cast removed",
}
_ASKED = {
    "program": "the program",
    "plan": "the Plan",
    "lowering": "exact",
    "nobody": "nobody",
    "unknown": "unknown",
    "": "",
}
_MOST_PROBLEMS = 5

# The figures of `Audit.counts` in words, in the order in which a difference lists them.
FIGURES = {
    "converts": "floating converts",
    "converts.program": "converts: the program's",
    "converts.plan": "converts: the Plan's",
    "converts.nobody": "converts: nobody's",
    "converts.unknown": "converts: of unknown origin",
    "converts.bytes": "converts: bytes",
    "converts.exact": "exact converts",
    "roundings": "explicit roundings",
    "products": "products",
    "products.reduced": "products in reduced precision",
    "accumulations.16bit": "sums in 16 bits",
    "float64": "float64 instructions",
    "casts.removed": "casts removed",
    "lines.unread": "lines not read",
}


def size(nbytes: int) -> str:
    """ "312 B", "1.5 KB", "3.2 GB": in steps of 1024."""
    amount, unit = float(nbytes), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if amount < 1024 or unit == "TB":
            break
        amount /= 1024
    return f"{nbytes} B" if unit == "B" else f"{amount:.1f} {unit}"


def render(audit: Audit, width: int = 0, color: bool = False) -> str:
    """The figures, then the rows by source line. width: 0 for unlimited."""
    lines = [f"audit of {audit.title}: {audit.language}, {audit.instructions} instructions", *_summary(audit)]
    for problem in audit.problems[:_MOST_PROBLEMS]:
        lines.append(f"  not read: {audit.title}:{problem}")
    if audit.unread_lines > _MOST_PROBLEMS:
        lines.append(f"  not read: {audit.unread_lines - _MOST_PROBLEMS} more lines")
    for place, rows in audit.by_line():
        lines += ["", _bold(heading(*place), color), *_table([_cells(row) for row in rows])]
    return "\n".join(_fit(line.rstrip(), width) for line in lines)


def render_diff(difference: AuditDiff, width: int = 0, color: bool = False) -> str:
    """The figures that differ, then the changes by source line."""
    before, after = difference.before, difference.after
    lines = [f"audit: {before.title} -> {after.title}"]
    figures = [
        [FIGURES[name], _figure(name, a), "->", _figure(name, b)]
        for name, (a, b) in difference.counts().items()
        if name in FIGURES and a != b
    ]
    lines += _table(figures) or ["  no figure differs"]
    for place, changes in itertools.groupby(difference.changes, key=lambda c: (c.file, c.line)):
        lines += ["", _bold(heading(*place), color)]
        for change in changes:
            lines += _change(change)
    if not difference.changes:
        lines.append("  the same on every line")
    return "\n".join(_fit(line.rstrip(), width) for line in lines)


def heading(file: str, line: int) -> str:
    """A source position with its text, where the source is here."""
    if not file:
        return "without a source line"
    text = linecache.getline(file, line).strip()
    return f"{os.path.basename(file)}:{line}" + f"  {text}" * bool(text)


def asked(row: Row) -> str:
    """Who asked for a convert, with the rule; for other rows the rule alone."""
    said = _ASKED[row.asked]
    reason = ", ".join(part for part in (row.rule, row.why) if part)
    return f"{said}: {reason}" if said and reason else said or reason


def title(kind: str) -> str:
    return _TITLES[kind]


def _summary(audit: Audit) -> Iterator[str]:
    counts = audit.counts()
    who = (
        ("program", "the program's"),
        ("plan", "the Plan's"),
        ("nobody", "nobody's"),
        ("unknown", "of unknown origin"),
    )
    parts = [f"{n} {words}" for name, words in who if (n := counts[f"converts.{name}"])]
    floating = f"{counts['converts']} floating"
    floating += f" ({', '.join(parts)}), {size(counts['converts.bytes'])} read and written" if parts else ""
    lines = [["converts", f"{floating}; {counts['converts.exact']} exact"]]
    lines.append(["products", f"{counts['products']}, {counts['products.reduced']} of them in reduced precision"])
    lines.append(["sums in 16 bits", str(counts["accumulations.16bit"])])
    lines.append(["float64", f"{counts['float64']} instructions" if counts["float64"] else "none"])
    if counts["roundings"]:
        lines.append(["roundings", f"{counts['roundings']} explicit"])
    if counts["casts.removed"]:
        lines.append(["casts removed", f"{counts['casts.removed']} of the program's, by the compiler"])
    if audit.unread_lines:
        lines.append(["lines not read", str(audit.unread_lines)])
    yield from _table(lines)


def _cells(row: Row) -> list[str]:
    times = f"x{row.count}" if row.count > 1 else ""
    return [_TITLES[row.kind], row.event, times, size(row.nbytes), row.op, asked(row)]


def _change(change: Change) -> Iterator[str]:
    bytes_changed = f", {size(change.bytes_before)} -> {size(change.bytes_after)}"
    counted = f"{change.before} -> {change.after}"
    nodes = change.nodes
    if nodes > 1 and not (change.before % nodes or change.after % nodes):
        counted += f" ({change.before // nodes} -> {change.after // nodes} in each of {nodes} nodes)"
    lost = f", {change.casts_lost} of the program's casts gone" if change.casts_lost else ""
    yield f"  {change.op}: {_TITLES[change.kind]}s {counted}{bytes_changed}{lost}"
    rows = []
    for event in change.events:
        if event.before != event.after:
            before, after = event.rules
            rules = before if before == after else f"{before or '-'} -> {after or '-'}"
            rows.append(["  " + event.text, f"{event.before} -> {event.after}", rules])
    yield from _table(rows)


def _figure(name: str, value: int) -> str:
    return size(value) if name.endswith(".bytes") else str(value)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in aligned columns, indented by two."""
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(_padded(row, widths)).rstrip() for row in rows]


def _padded(row: Sequence[str], widths: Iterable[int]) -> Iterator[str]:
    return (cell.ljust(width) for cell, width in zip(row, widths, strict=True))


def _bold(text: str, color: bool) -> str:
    return f"\x1b[1m{text}\x1b[0m" if color else text


def _fit(line: str, width: int) -> str:
    return line if not width or len(line) <= width or "\x1b" in line else line[: width - 1] + "…"

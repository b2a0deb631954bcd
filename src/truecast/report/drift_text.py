"""A drift as tables that a person reads in a terminal; the rows are the HTML page's too."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from truecast.diagnose.drift import Error, Measurements, NodeDrift
from truecast.errors import UsageError
from truecast.sites import Site

_MOST_MODULES = 40
_MOST_OPS = 12
_MOST_DECISIONS = 12
_MOST_RESULTS = 6


@dataclass(frozen=True)
class Rows:
    """A table as data: a caption, headings, cells; `left` columns are words, the rest numbers."""

    caption: str
    headings: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    left: int = 1
    more: int = 0


def render(measured: Measurements, width: int = 0, color: bool = False) -> str:
    """The summary and the tables that say most, each cut to what fits a screen."""
    parts = ["\n".join(summary(measured))]
    tables = [modules(measured, _MOST_MODULES), ops(measured, _MOST_OPS)]
    if measured.decisions:
        tables.append(decisions(measured, _MOST_DECISIONS))
    if measured.training is not None:
        tables.append(steps(measured))
    parts += [_printed(rows, width, color) for rows in tables]
    return "\n\n".join(parts)


def table(measured: Measurements, by: str, width: int = 0) -> str:
    """One whole table."""
    makers = {"module": modules, "op": ops, "value": values, "decision": decisions, "step": steps}
    if by not in makers:
        raise UsageError(f"there is no table by {by!r}", help=f"one of {', '.join(makers)}")
    return _printed(makers[by](measured), width, False)


def summary(measured: Measurements) -> Iterator[str]:
    """What it comes to, in a few lines."""
    m = measured
    yield f"{m.program}: A = {m.a}, B = {m.b}, against {m.reference} ({len(m.nodes)} values)"
    for note in m.notes:
        yield f"  note: {note}"
    results = [node for node in m.nodes if node.name in m.results]
    for node in results[:_MOST_RESULTS]:
        kind = f"{node.dtype}[{','.join(map(str, node.shape))}]"
        yield f"  result {node.name} {kind}: error A {_against(node, 0)}, B {_against(node, 1)}"
    if len(results) > _MOST_RESULTS:
        yield f"  ... and {len(results) - _MOST_RESULTS} more results"
    parting = m.first_parting
    if parting is None:
        yield "  A and B have the same bits everywhere"
    else:
        share = parting.differing if isinstance(parting, NodeDrift) else parting.between
        yield f"  A and B part first at {parting.op}, {place(parting.site)}: {_percent(share)} of {parting.name} differ"
    growth = m.growth()
    if growth is not None:
        factors = ", ".join(
            f"{name} x{_number(factor)}"
            for name, factor in (("A", growth.a), ("B", growth.b), ("honest", growth.honest))
        )
        yield f"  growth along {growth.count} blocks {growth.blocks}, from one to the next: {factors}"
    flipped = [d for d in m.decisions if d.between]
    if m.decisions:
        yield f"  {len(flipped)} of {len(m.decisions)} discrete decisions differ between A and B"
    for kind, run in (("A", 0), ("B", 1)):
        strays = [n for n in m.nodes if (n.a, n.b)[run].strays]
        if strays:
            first = strays[0]
            count = (first.a, first.b)[run].strays
            where = f"{count} elements of {first.name}, {first.op}, {place(first.site)}"
            yield f"  {len(strays)} values are finite in one of {kind} and {m.reference} only; first {where}"
    for missed in m.not_computed:
        yield f"  not in {m.reference}: {missed.name} = {missed.op}, {place(missed.site)}: {missed.why}"


_ERRORS = ("error A", "error B", "honest", "A/honest", "B/honest", "ULPs A", "ULPs B", "A≠B")


def modules(measured: Measurements, most: int = 0) -> Rows:
    """Each module by the last value that it makes; the outermost only, if there are more than `most`."""
    found = measured.modules()
    if most and len(found) > most:
        depth = max((d for d in range(1, 12) if sum(_depth(m.module) <= d for m in found) <= most), default=1)
        found = tuple(m for m in found if _depth(m.module) <= depth)
    several = len({module.phase for module in found}) > 1
    cells = tuple(
        (
            (module.module or "(the program)") + (f" ({module.phase})" if several else ""),
            str(module.values),
            *_errors(module.output),
        )
        for module in (found[:most] if most else found)
    )
    more = len(found) - len(cells)
    return Rows("by module: the error of the last value each makes", ("module", "values", *_ERRORS), cells, 1, more)


def ops(measured: Measurements, most: int = 0) -> Rows:
    """Each overload, with the medians of its errors and the value with the largest ratio."""
    found = measured.ops()
    cells = tuple(
        (
            op.op,
            str(op.values),
            *map(_number, (op.error_a, op.error_b, op.ulps_a, op.ulps_b)),
            _number(op.ratio_a),
            _number(op.ratio_b),
            _number(op.worst.ratios[1]),
            place(op.worst.site),
        )
        for op in (found[:most] if most else found)
    )
    errors = ("error A", "error B", "ULPs A", "ULPs B", "A/honest", "B/honest")
    headings = ("operation", "values", *errors, "largest B/honest", "there")
    return Rows("by operation: medians over its values", headings, cells, 1, len(found) - len(cells))


def values(measured: Measurements) -> Rows:
    """Every value in program order."""
    headings = ("value", "operation", "where", *_ERRORS, "median A", "p99 A", "max A", "median B", "p99 B", "max B")
    cells = tuple(
        (
            node.name,
            node.op,
            place(node.site),
            *_errors(node),
            *(_number(x) for e in (node.a, node.b) for x in (e.median, e.p99, e.largest)),
        )
        for node in measured.nodes
    )
    return Rows("by value", headings, cells, 3)


def decisions(measured: Measurements, most: int = 0) -> Rows:
    """The discrete decisions; those that differ most between A and B first where not all are shown."""
    found = list(measured.decisions)
    if most:
        found = sorted(found, key=lambda d: -max(d.between, d.a, d.b))[:most]
    cells = tuple(
        (d.op, place(d.site), str(d.elements), *map(_percent, (d.between, d.a, d.b, d.honest))) for d in found
    )
    headings = ("decision", "where", "elements", "A≠B", "A≠ref", "B≠ref", "honest≠ref")
    caption = "discrete decisions: the share that flips"
    return Rows(caption, headings, cells, 2, len(measured.decisions) - len(cells))


def steps(measured: Measurements) -> Rows:
    """The training steps."""
    taken = () if measured.training is None else measured.training.steps
    cells = tuple(
        (
            str(number),
            *(_loss(x) for x in (s.loss_a, s.loss_b, s.loss_reference, s.loss_honest)),
            *map(_number, (s.parameters_a, s.parameters_b, s.parameters_honest)),
        )
        for number, s in enumerate(taken, 1)
    )
    losses = ("step", "loss A", "loss B", "loss ref", "loss honest")
    return Rows(
        "training: losses, and how far the parameters are off, of the reference's own way",
        (*losses, "parameters A", "parameters B", "parameters honest"),
        cells,
    )


def place(site: Site) -> str:
    return f"{site}{f' in {site.module}' if site.module else ''}"


def _errors(node: NodeDrift) -> tuple[str, ...]:
    ratios = map(_number, node.ratios)
    errors = [_with_strays(e) for e in (node.a, node.b, node.honest)]
    return (*errors, *ratios, _ulps(node.a), _ulps(node.b), _percent(node.differing))


def _with_strays(error: Error) -> str:
    return _number(error.rms) + (f" +{error.strays} not finite" if error.strays else "")


def _ulps(error: Error) -> str:
    return f"{_number(error.ulps_median)} to {_number(error.ulps_largest)}"


def _against(node: NodeDrift, run: int) -> str:
    error, ratio = (node.a, node.b)[run], node.ratios[run]
    return _with_strays(error) + (f" ({_number(ratio)} x honest)" if ratio is not None else "")


def _number(x: float | None) -> str:
    return "-" if x is None else "0" if x == 0 else f"{x:.3g}"


def _loss(x: float | None) -> str:
    return "-" if x is None else f"{x:.6g}"


def _percent(share: float) -> str:
    return "0" if not share else f"{100 * share:.2g}%"


def _depth(module: str) -> int:
    return module.count(".") + 1 if module else 0


def _printed(rows: Rows, width: int, color: bool) -> str:
    shown = Table(title=rows.caption, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for position, heading in enumerate(rows.headings):
        words = position < rows.left or heading in ("there", "where")
        shown.add_column(heading, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for cells in rows.cells:
        shown.add_row(*cells)
    out = io.StringIO()
    console = Console(
        file=out, width=width or 240, color_system="standard" if color else None, force_terminal=color, markup=False
    )
    console.print(shown)
    lines: Sequence[str] = [line.rstrip() for line in out.getvalue().rstrip("\n").split("\n")]
    more = [f"... and {rows.more} more"] if rows.more else []
    return "\n".join([*lines, *more])

"""TC701: what a global downcast computed in 16 bits and the program computes in 32 or 64 now, one finding per cause."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import article, cast_back, operation, origin_place, size_text
from truecast.diagnose.finding import Edit, Finding, Place, Severity
from truecast.diagnose.flow import Flow
from truecast.diagnose.migration import Cause, Change, Migration
from truecast.numerics.plan import PRODUCTS
from truecast.ops import lookup

CODE = "TC701"
_MOST_PLACES = 4  # the table of the report has every line


def check(migration: Migration, told: frozenset[tuple[str, int]]) -> Iterator[Finding]:
    """A warning where a product runs wide, or anything in 64 bits; else a remark. told: the lines of refusals' origins,
    which TC702 reports."""
    for cause in migration.causes:
        if cause.is_parameter or (cause.step.site.file, cause.step.site.line) not in told:
            yield _finding(migration, cause)


def _finding(migration: Migration, cause: Cause) -> Finding:
    flow, step = migration.flow, cause.step
    heavy = next((c for c in cause.changes if _is_product(c)), None)
    first = cause.changes[0]
    double = first.now.component_bits > 32
    place = origin_place(flow, step)
    if cause.is_parameter or place is None:
        place = Place("symptom", first.node.site, f"{operation(first.node)} -> {first.value}")
    places = [Place("symptom", place.site, place.text, place.note)]
    if heavy is not None and heavy.node.site != place.site:
        places.append(Place("related", heavy.node.site, f"the first of the products in {heavy.now}: {heavy.value}"))
    shown = {(p.site.file, p.site.line) for p in places}
    for change in cause.changes:
        site = change.node.site
        if len(places) < _MOST_PLACES and site.file and (site.file, site.line) not in shown:
            shown.add((site.file, site.line))
            places.append(Place("related", site, f"{operation(change.node)}: {change.then}, now {change.now}"))
    severity: Severity = "info" if heavy is None and not double else "warning"
    help_text, edit = _help(migration, cause, heavy)
    return Finding(
        CODE,
        severity,
        f"{_what(flow, cause)}: {first.then} under {migration.variable}=1, {first.now} now",
        tuple(places),
        f"the device held every {step.value.dtype} as {migration.held(step.value.dtype)} while .dtype said "
        f"{step.value.dtype} (law N11); {_extent(cause)}",
        help_text,
        edit,
    )


def _is_product(change: Change) -> bool:
    row = lookup(change.node.op)
    return row is not None and row.kind in PRODUCTS and change.node.site.phase == "forward"


def _what(flow: Flow, cause: Cause) -> str:
    if cause.is_parameter:
        return "the parameters and what follows from them"
    step = cause.step
    dtype = step.value.dtype
    name = "" if step.node is None else flow.call(step.node).function.strip("_") or operation(step.node)
    match step.why:
        case "promotion":
            return f"what {article(dtype)} tensor widens"
        case "cast":
            return f"what the program converts to {dtype}"
        case "autocast":
            return f"what autocast converts to {dtype}"
        case "internal":
            return f"what {name} converts to {dtype}"
        case "factory":
            return f"what `{name}` makes"
        case "input":
            path = step.source.path if step.source is not None else ""
            return f"`{path}`, which comes from outside" if path else "a tensor from outside"
        case _:
            return f"what {name} returns"


def _extent(cause: Cause) -> str:
    lines = len({(c.node.site.file, c.node.site.line) for c in cause.changes})
    count = len(cause.changes)
    wide = sum(v.nbytes for c in cause.changes for v in c.node.outputs if v is not None and v.dtype is c.value.dtype)
    return (
        f"{count} operation{'s' * (count != 1)} on {lines} line{'s' * (lines != 1)} and {size_text(wide)} of results "
        f"differ"
    )


def _help(migration: Migration, cause: Cause, heavy: Change | None) -> tuple[str, Edit | None]:
    step, narrow = cause.step, migration.held(cause.step.value.dtype)
    if cause.is_parameter:
        return (
            f"module.to(torch.{narrow}), and its inputs with it, computes as before, lost updates included; to keep "
            f"{step.value.dtype} parameters, compute in torch.autocast(device_type, dtype=torch.{narrow})",
            None,
        )
    if heavy is None and step.value.dtype.component_bits <= 32:
        return (
            f"nothing has to be written: it was rounded to {narrow} before and is not now, and no product runs in "
            f"{step.value.dtype} because of it",
            None,
        )
    if step.why == "promotion":
        return f"round to {narrow} once, where the arithmetic with the {step.value.dtype} tensor ends", cast_back(step)
    if step.why == "factory":
        return f"to compute as before, make it so: dtype=torch.{narrow}", None
    return f"to compute as before, convert it where it enters the model: .to(torch.{narrow})", None

"""TC304: a discrete decision (the largest, a bucket, an integer) is taken from numbers that were just rounded."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import operation
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow, Step
from truecast.graph import Node, Value
from truecast.ops import lookup

CODE = "TC304"
_DECISIONS = frozenset(
    ("argmax", "argmin", "topk", "bucketize", "searchsorted", "sort", "argsort", "kthvalue", "mode", "multinomial")
)
_TO_INTEGERS = frozenset(("floor", "ceil", "round", "trunc"))


def check(flow: Flow) -> Iterator[Finding]:
    """Each decision whose operand comes from the program's own rounding to 16 bits."""
    for node in flow.graph.nodes:
        name = operation(node)
        if node.site.phase != "forward" or name not in _DECISIONS | _TO_INTEGERS:
            continue
        for value in node.inputs:
            cast = _rounding(flow, value) if value.dtype.is_narrow else None
            if cast is not None:
                yield _finding(node, name, cast)
                break


def _rounding(flow: Flow, value: Value) -> Step | None:
    """The program's own cast from a wider dtype that `value` comes from by movement and single-operand arithmetic."""
    for step in flow.back(value):
        if step.why == "cast":
            before = step.because
            wide = before is not None and before.dtype.is_floating and before.dtype.bits > step.value.dtype.bits
            return step if wide else None
        row = lookup(step.node.op) if step.node is not None else None
        if step.why != "follows" or row is None or row.kind not in ("movement", "elementwise", "normalization"):
            return None
    return None


def _finding(node: Node, name: str, cast: Step) -> Finding:
    narrow = cast.value.dtype
    return Finding(
        CODE,
        "warning",
        f"`{name}` decides on numbers that were rounded to {narrow}",
        (
            Place("symptom", node.site, f"{name} of {next(node.inputs)}"),
            Place("origin", cast.site, f"{cast.because} -> {narrow}"),
        ),
        f"numbers closer than 1 part in {2 ** (narrow.mantissa_bits + 1)} become equal, and the decision among them "
        "arbitrary: it differs between dtypes, and no tolerance hides it",
        "decide first, in the wider dtype, and round afterwards",
    )

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
_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


def check(flow: Flow) -> Iterator[Finding]:
    """Each decision whose operand comes from the program's own rounding to 16 bits."""
    for node in flow.graph.nodes:
        name = operation(node)
        if node.site.phase != "forward" or not _decides(flow, node, name):
            continue
        for value in node.inputs:
            cast = _rounding(flow, value) if value.dtype.is_narrow else None
            if cast is not None:
                yield _finding(node, name, cast)
                break


def _decides(flow: Flow, node: Node, name: str) -> bool:
    """Whether a node takes a decision: also a comparison with anything but zero, whose side rounding can't change, and
    a conversion to integers."""
    if name in _DECISIONS | _TO_INTEGERS:
        return True
    if name in _COMPARISONS:
        return len(node.args) > 1 and (isinstance(node.args[1], Value) or node.args[1] != 0)
    result = node.outputs[0] if node.outputs else None
    return name == "to_copy" and result is not None and result.dtype.category == "integral"


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
    name = "a conversion to integers" if name == "to_copy" else f"`{name}`"
    return Finding(
        CODE,
        "warning",
        f"{name} decides on numbers that were rounded to {narrow}",
        (
            Place("symptom", node.site, f"{operation(node)} of {next(node.inputs)}"),
            Place("origin", cast.site, f"{cast.because} -> {narrow}"),
        ),
        f"numbers closer than 1 part in {2 ** (narrow.mantissa_bits + 1)} become equal, and the decision among them "
        "arbitrary: it differs between dtypes, and no tolerance hides it",
        "decide first, in the wider dtype, and round afterwards",
    )

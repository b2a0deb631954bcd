"""TC203: a float is rounded to 16 bits and widened again with nothing computed between: the digits are gone."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow, Step
from truecast.graph import Node, Value
from truecast.ops import lookup

CODE = "TC203"


def check(flow: Flow) -> Iterator[Finding]:
    """Each explicit widening whose operand was, but for movement, just rounded from the dtype it gets."""
    for node in flow.graph.nodes:
        for value in node.outputs:
            if value is None or node.site.phase != "forward" or not value.dtype.is_floating:
                continue
            step = flow.step(value)
            if step.why != "cast" or step.because is None or not step.because.dtype.is_narrow:
                continue
            down = _rounding(flow, step.because)
            if down is None or down.because is None or down.because.dtype is not value.dtype:
                continue
            if all(_widens(n) for n in flow.consumers[down.value.name]):
                yield _finding(step, down)


def _widens(node: Node) -> bool:
    """Whether a reader of the rounded value wants it wide, or only moves it."""
    row = lookup(node.op)
    return row is not None and row.kind in ("cast", "movement")


def _rounding(flow: Flow, value: Value) -> Step | None:
    """The program's own cast that `value` comes from by movement alone."""
    while True:
        step = flow.step(value)
        if step.why == "cast":
            return step
        row = lookup(step.node.op) if step.node is not None else None
        if row is None or row.kind != "movement" or step.why != "follows" or step.because is None:
            return None
        value = step.because


def _finding(up: Step, down: Step) -> Finding:
    wide, narrow = up.value.dtype, down.value.dtype
    bits = narrow.mantissa_bits + 1
    return Finding(
        CODE,
        "info",
        f"a {wide} value is rounded to {narrow} and widened again",
        (
            Place("symptom", up.site, f"{up.because} -> {wide}"),
            Place("origin", down.site, f"{down.because} -> {narrow}"),
        ),
        f"{narrow} keeps {bits} significant bits; widening brings none of the others back",
        f"drop the cast to {narrow}: nothing is computed in it",
    )

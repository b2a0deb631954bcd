"""TC201: a 16-bit value is promoted by a dimensioned wider tensor, and what follows computes in the wider dtype."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import article, cast_back, operation, origin_place, size_text
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow, Step
from truecast.diagnose.span import Span, follow
from truecast.graph import Node, Value
from truecast.sites import UNKNOWN

CODE = "TC201"
_FLOATS = frozenset(("float32", "float64"))


def check(flow: Flow) -> Iterator[Finding]:
    """Promotions that reach a contraction, a convolution or attention, unless that refuses them (TC101 to TC103)."""
    refused = {v.name for r in flow.observations.refusals for _, v in r.operands}
    for node in flow.graph.nodes:
        for value in node.outputs:
            if value is None or not _is_widening(flow, value):
                continue
            span = follow(flow, value)
            if span.heavy is not None and not refused & {value.name, *span.names}:
                yield _finding(flow, flow.step(value), span, span.heavy)


def _is_widening(flow: Flow, value: Value) -> bool:
    if value.dtype.name not in _FLOATS:
        return False
    step = flow.step(value)
    return (
        step.why == "promotion"
        and step.site.phase == "forward"
        and step.site != UNKNOWN
        and all(v.dtype.is_narrow for v in step.outvoted)
        and step.node is not None
        and not flow.is_inside(step.node)
    )


def _finding(flow: Flow, step: Step, span: Span, heavy: Node) -> Finding:
    dtype, narrow = step.value.dtype, step.outvoted[0].dtype
    origin = origin_place(flow, step)
    assert origin is not None, "a widening has a site"
    name = flow.call(heavy).function.strip("_") or operation(heavy)
    count = len(span.nodes)
    return Finding(
        CODE,
        "warning",
        f"{article(dtype)} tensor widens {article(narrow)} value, and {name} computes in {dtype}",
        (
            Place("symptom", step.site, origin.text, origin.note),
            Place("related", heavy.site, f"the first of the wide products: {heavy.outputs[0]}"),
            *(Place("related", end.site, f"it ends here: {end.outputs[0]}") for end in span.ends[:1]),
        ),
        "PyTorch promotes two dimensioned tensors to the wider dtype (law N1); "
        f"{count} operation{'s' * (count != 1)} and {size_text(span.nbytes)} of results are {dtype} because of it",
        f"round to {narrow} once, where the arithmetic with the {dtype} tensor ends",
        cast_back(step),
    )

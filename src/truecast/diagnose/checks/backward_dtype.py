"""TC407: a product computes in one dtype in the forward pass and in another in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.checks import custom_function
from truecast.diagnose.explained import article
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.graph import Node, Value
from truecast.ops import lookup
from truecast.sites import Site

CODE = "TC407"
_PRODUCTS = frozenset(("contraction", "convolution", "attention"))
_Line = tuple[str, int]


def check(flow: Flow) -> Iterator[Finding]:
    """Custom Functions whose backward leaves the region that their forward ran in, and lines whose backward products
    have none of the dtypes of their forward ones."""
    for name, function in flow.observations.functions.items():
        step = custom_function.converted(flow, name) if function.has_policy else None
        if step is None:
            continue
        back = custom_function.wide_backward(flow, name, step.value.dtype)
        if back is not None and back.outputs[0] is not None and step.node is not None:
            yield _finding(step.node, step.value, back, back.outputs[0])
    refused = {_line(r.site) for r in flow.observations.refusals}
    forward: dict[_Line, list[tuple[Node, Value]]] = {}
    for node, value in _products(flow):
        if node.site.phase == "forward":
            forward.setdefault(_line(node.site), []).append((node, value))
            continue
        before = forward.get(_line(node.site), [])
        if before and _line(node.site) not in refused and all(v.dtype is not value.dtype for _, v in before):
            yield _finding(*before[0], node, value)


def _products(flow: Flow) -> Iterator[tuple[Node, Value]]:
    """The products outside of custom Functions, with their results."""
    for node in flow.graph.nodes:
        row = lookup(node.op)
        value = node.outputs[0] if node.outputs else None
        if row is None or row.kind not in _PRODUCTS or value is None or not value.dtype.is_inexact:
            continue
        if node.name not in flow.observations.custom and node.site.file:
            yield node, value


def _line(site: Site) -> _Line:
    return site.file, site.line


def _finding(ahead: Node, value: Value, back: Node, result: Value) -> Finding:
    return Finding(
        CODE,
        "warning",
        f"a product computes in {value.dtype} forward and in {result.dtype} backward",
        (
            Place("symptom", back.site, f"backward: {result}"),
            Place("origin", ahead.site, f"forward: {value}"),
        ),
        f"the gradient is not that of the function that was computed: {article(value.dtype)} forward rounds, the "
        "backward sees the numbers before",
        "run the recomputation in the same autocast state: torch.amp.custom_bwd beside custom_fwd, or "
        "torch.utils.checkpoint, which restores it",
    )

"""TC402: the backward pass or the optimizer's step runs inside an autocast region."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.graph import Node
from truecast.sites import Site

CODE = "TC402"


def check(flow: Flow) -> Iterator[Finding]:
    """One finding for each line that calls backward inside a region, one for each optimizer step there."""
    told: set[tuple[str, int]] = set()
    for node in flow.graph.nodes:
        call = flow.call(node)
        if call.autocast is None:
            continue
        backward = call.function in ("backward", "grad") and node.op == "aten.ones_like.default"
        if not backward and node.site.phase != "optimizer":
            continue
        if (node.site.file, node.site.line) not in told:
            told.add((node.site.file, node.site.line))
            yield _finding(node, node.site, "the backward pass" if backward else "the optimizer's step")


def _finding(node: Node, site: Site, what: str) -> Finding:
    return Finding(
        CODE,
        "warning",
        f"{what} runs inside an autocast region",
        (Place("symptom", site),),
        "autocast is for the forward pass and the loss: the backward pass computes in the dtypes that forward chose, "
        "and what a custom backward or an optimizer does inside the region is converted to 16 bits",
        f"end the region before {what}",
    )

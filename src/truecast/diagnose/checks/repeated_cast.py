"""TC204: one parameter is converted to the same dtype over and over within a pass."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.graph import Node, Value

CODE = "TC204"
_LEAST = 3  # casts of one version of a parameter: two may be a forward pass and its recomputation


def check(flow: Flow) -> Iterator[Finding]:
    """Parameters, unchanged meanwhile, with three or more casts to one dtype in the forward pass."""
    casts: dict[tuple[str, str], list[tuple[Node, Value]]] = {}
    for node in flow.graph.nodes:
        if node.op != "aten._to_copy.default" or node.site.phase != "forward":
            continue
        source, result = next(node.inputs), node.outputs[0]
        if result is None or source.dtype is result.dtype or not result.dtype.is_floating:
            continue
        if flow.parameter(source) is not None:
            casts.setdefault((source.name, result.dtype.name), []).append((node, source))
    for (_, wanted), found in casts.items():
        if len(found) >= _LEAST:
            node, source = found[0]
            path = flow.parameter(source)
            yield Finding(
                CODE,
                "warning",
                f"a parameter is converted to {wanted} {len(found)} times in one pass",
                (Place("symptom", node.site, f"{f'`{path}` ' if path else ''}{source} -> {wanted}"),),
                f"each conversion reads {source.nbytes} bytes and writes as many elements anew",
                "convert it once, outside of the loop, or keep it in the dtype it is used in",
            )

"""TC306: the bits of one floating dtype are read as another of the same width."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import origin_place
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow

CODE = "TC306"


def check(flow: Flow) -> Iterator[Finding]:
    """Each view of a float as another float."""
    for node in flow.graph.nodes:
        result = node.outputs[0] if node.outputs else None
        if node.op != "aten.view.dtype" or result is None:
            continue
        source = next(node.inputs)
        if source.dtype is result.dtype or not (source.dtype.is_floating and result.dtype.is_floating):
            continue
        origin = origin_place(flow, flow.origin(source))
        yield Finding(
            CODE,
            "warning",
            f"the bits of {source.dtype} are read as {result.dtype}",
            (Place("symptom", node.site, f"{source} viewed as {result}"), *([origin] if origin else [])),
            f"{source.dtype} has {source.dtype.exponent_bits} exponent bits, {result.dtype} has "
            f"{result.dtype.exponent_bits}: the numbers are others, finite and wrong",
            f"`.view(dtype)` reinterprets; `.to(torch.{result.dtype})` converts",
        )

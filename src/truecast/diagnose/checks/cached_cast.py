"""TC403: autocast's cached conversion of a weight, made without gradients, is used where gradients are on."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow

CODE = "TC403"


def check(flow: Flow) -> Iterator[Finding]:
    """Conversions of parameters that autocast made with gradients off, and that are read with gradients on."""
    for node in flow.graph.nodes:
        result = node.outputs[0] if node.outputs else None
        if result is None or flow.step(result).why != "autocast" or flow.call(node).gradients:
            continue
        source = next(node.inputs)
        path = flow.parameter(source)
        if path is None:
            continue
        late = next((n for n in flow.consumers.get(result.name, ()) if _wants_gradient(flow, n.name)), None)
        if late is not None:
            named = f"`{path}`" if path else "a parameter"
            yield Finding(
                CODE,
                "error",
                "a parameter gets no gradient: autocast reuses a conversion that was made under no_grad",
                (
                    Place("symptom", late.site, f"reads the {result.dtype} copy of {named}"),
                    Place("origin", node.site, f"{source} -> {result.dtype} (autocast), gradients off"),
                ),
                "autocast keeps a converted weight until its region ends; one made under no_grad has no history",
                "use two regions, one for each; or torch.clear_autocast_cache() between them",
            )


def _wants_gradient(flow: Flow, name: str) -> bool:
    call = flow.call(flow.producers[name])
    return call.gradients and call.autocast is not None and flow.producers[name].site.phase == "forward"

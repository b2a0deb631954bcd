"""TC404: a custom autograd Function that says nothing of autocast is applied inside a region: its forward runs in 16
bits, its backward on what it saved and outside of the region."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow, Step
from truecast.graph import Node
from truecast.observations import CustomFunction
from truecast.ops import lookup

CODE = "TC404"
_PRODUCTS = frozenset(("contraction", "convolution", "attention"))


def check(flow: Flow) -> Iterator[Finding]:
    """Functions without custom_fwd in whose forward autocast converted something."""
    for name, function in flow.observations.functions.items():
        step = None if function.has_policy else converted(flow, name)
        if step is not None:
            yield _finding(flow, function, step)


def converted(flow: Flow, name: str) -> Step | None:
    """The first conversion of autocast's in the forward of a custom Function."""
    for node in flow.graph.nodes:
        if node.site.phase == "forward" and flow.observations.custom.get(node.name) == name:
            for value in node.outputs:
                if value is not None and flow.step(value).why == "autocast":
                    return flow.step(value)
    return None


def wide_backward(flow: Flow, name: str, narrow: object) -> Node | None:
    """The first product in the backward of a custom Function whose dtype is not `narrow`."""
    for node in flow.graph.nodes:
        row = lookup(node.op)
        if node.site.phase != "backward" or row is None or row.kind not in _PRODUCTS:
            continue
        result = node.outputs[0]
        if flow.observations.custom.get(node.name) == name and result is not None and result.dtype is not narrow:
            return node
    return None


def _finding(flow: Flow, function: CustomFunction, step: Step) -> Finding:
    assert step.node is not None, "a conversion has a node"
    device = flow.call(step.node).autocast_device
    places = [
        Place("symptom", function.site, f"{function.name} is applied inside an autocast region"),
        Place("origin", step.site, f"{step.because} -> {step.value.dtype} (autocast)"),
    ]
    back = wide_backward(flow, function.name, step.value.dtype)
    if back is not None:
        places.append(Place("related", back.site, f"the backward computes in {back.outputs[0]}"))
    return Finding(
        CODE,
        "warning",
        f"the custom Function `{function.name}` has no policy for autocast",
        tuple(places),
        "autocast holds inside forward, but what it saves for backward are the operands before their conversion, and "
        "backward runs outside of the region: the two compute in different dtypes, or meet in one operation",
        f'decorate forward with torch.amp.custom_fwd(device_type="{device}") and backward with '
        f'torch.amp.custom_bwd(device_type="{device}"); with cast_inputs=torch.float32 it stays out of autocast',
    )

"""TC301: an explicit conversion to float32 that autocast undoes, since the operation is on its lower-precision list."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import operation
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow, Step
from truecast.graph import Node, Value
from truecast.ops import lookup

CODE = "TC301"


def check(flow: Flow) -> Iterator[Finding]:
    """Each autocast conversion to 16 bits of what the program had just made float32."""
    seen: set[tuple[object, ...]] = set()
    for node in flow.graph.nodes:
        for value in node.outputs:
            if value is None or not value.dtype.is_narrow or node.site.phase != "forward":
                continue
            step = flow.step(value)
            if step.why != "autocast" or step.because is None:
                continue
            asked = _explicit(flow, step.because)
            if asked is not None and (node.site, asked.site.line) not in seen:
                seen.add((node.site, asked.site.line))
                yield _finding(flow, node, step, asked)


def _explicit(flow: Flow, value: Value) -> Step | None:
    """The program's own cast to float32 that `value` comes from by movement and arithmetic with numbers."""
    for step in flow.back(value):
        if step.why == "cast" and step.value.dtype.name == "float32":
            # A parameter's .to(float32) is a master copy, and autocast's rounding of it is what autocast is for.
            return step if step.because is not None and flow.parameter(step.because) is None else None
        row = lookup(step.node.op) if step.node is not None else None
        if step.why != "follows" or row is None or row.kind not in ("movement", "elementwise"):
            return None
        assert step.node is not None, "a value that follows has a node"
        if len({v.name for v in step.node.inputs}) > 1:
            return None
    return None


def _finding(flow: Flow, node: Node, step: Step, asked: Step) -> Finding:
    call = flow.call(node)
    name = call.function.strip("_") or operation(node)
    return Finding(
        CODE,
        "warning",
        f"autocast undoes an explicit cast to float32: {name} runs in {step.value.dtype}",
        (
            Place("symptom", node.site, f"{step.because} -> {step.value.dtype} (autocast)"),
            Place("origin", asked.site, f"{asked.because} -> float32"),
        ),
        f"{name} is on the lower-precision list of {call.autocast_device or 'this device type'}: inside the region its "
        "operands are converted whatever dtype they have",
        f'leave the region for it: with torch.autocast("{call.autocast_device or "cpu"}", enabled=False): ...; '
        "or use an operation that is on no list (an elementwise product)",
    )

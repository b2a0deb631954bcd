"""TC405, TC406 and TC604: gradients that are used while a GradScaler's factor is still in them, a GradScaler over
float16 parameters, and one that has nothing to do."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.observations import ScalerEvent

_SHOWN = 3  # parameters that are named


def check(flow: Flow) -> Iterator[Finding]:
    """What goes wrong in the order of scale, backward, unscale, step."""
    events = flow.observations.scaling
    scaled: ScalerEvent | None = None
    for event in events:
        if event.what == "scale":
            scaled = event
        elif event.half:
            yield _half(event)
        elif scaled is not None and event.what == "change":
            yield _used(event, scaled, "are changed", "scaler.unscale_(optimizer) before it")
        elif scaled is not None and event.what == "optimizer" and not _has_step(events):
            yield _used(event, scaled, "reach the optimizer", "scaler.step(optimizer) instead of optimizer.step()")
    first = next((e for e in events if e.what == "scale"), None)
    if first is None or not first.asked:
        return
    if not first.enabled:
        yield _idle(first, "PyTorch disabled it: its device type is not available here")
    elif not _has_float16(flow):
        yield _idle(first, "no tensor of the program is float16: bfloat16 and float32 have the range of float32")


def _has_step(events: tuple[ScalerEvent, ...]) -> bool:
    return any(e.what in ("unscale", "step") for e in events)


def _has_float16(flow: Flow) -> bool:
    if any(region.enabled and str(region.dtype) == "float16" for region in flow.observations.regions):
        return True
    nodes = (v for node in flow.graph.nodes for v in node.outputs if v is not None)
    return any(v.dtype.name == "float16" for v in (*(e.value for e in flow.graph.inputs), *nodes))


def _used(event: ScalerEvent, scaled: ScalerEvent, what: str, instead: str) -> Finding:
    return Finding(
        "TC405",
        "warning",
        f"gradients {what} while they are still scaled",
        (Place("symptom", event.site), Place("origin", scaled.site, "the loss is scaled here")),
        "a GradScaler multiplies the loss by 65536 at first: a threshold or a learning rate that is meant for the "
        "gradients meets numbers that are larger by that factor",
        f"call {instead}",
    )


def _half(event: ScalerEvent) -> Finding:
    names = [f"`{name}`" for name in event.half if name][:_SHOWN]
    named = f" ({', '.join(names)}{', ...' * (len(event.half) > _SHOWN)})" if names else ""
    count = len(event.half)
    return Finding(
        "TC406",
        "error",
        "a GradScaler meets float16 parameters",
        (Place("symptom", event.site, f"{count} trainable parameter{'s' * (count != 1)} in float16{named}"),),
        "a scaler unscales into the gradient, and a float16 gradient can't hold the result: PyTorch raises "
        "`Attempting to unscale FP16 gradients.`",
        "keep trainable parameters in float32 and let autocast convert them",
    )


def _idle(scaled: ScalerEvent, reason: str) -> Finding:
    return Finding(
        "TC604",
        "warning",
        "a GradScaler has no effect",
        (Place("symptom", scaled.site),),
        f"{reason}, and there is nothing to scale for",
        "drop it, or make it GradScaler(enabled=...) with the condition under which float16 is used",
    )

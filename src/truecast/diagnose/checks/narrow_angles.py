"""TC302: angles, positions, timesteps and schedules in 16 bits."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import operation, origin_place
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import CASTS, Flow, Step
from truecast.dtypes import DType
from truecast.graph import Node, Value
from truecast.ops import lookup

CODE = "TC302"
_ANGLES = frozenset(("aten.sin.default", "aten.cos.default", "aten.tan.default", "aten.polar.default"))
_FAR = 12  # operations back from an angle that its rounding is looked for


def check(flow: Flow) -> Iterator[Finding]:
    """Trigonometry whose argument has, or just had, 16 bits; ordered sequences that lose members in a cast."""
    told: set[str] = set()
    for node in flow.graph.nodes:
        if node.op in _ANGLES and node.site.phase == "forward":
            narrow = _narrow_before(flow, next(node.inputs))
            if narrow is not None and narrow.value.name not in told and not _is_undone(flow, narrow):
                told.add(narrow.value.name)
                yield _angle(flow, node, narrow)
    angles = {name for node in flow.graph.nodes if node.op in _ANGLES for name in _ancestors(flow, node)}
    for name, effect in flow.observations.casts.items():
        cast = flow.producers.get(name)
        if cast is None or name in angles or not effect.ordered or effect.left == effect.distinct or effect.overflowed:
            continue
        if flow.call(cast).function in CASTS and flow.conversion(cast) == "cast" and not _is_integral(cast):
            yield _schedule(cast, effect.distinct, effect.left)


def _is_integral(cast: Node) -> bool:
    return not next(cast.inputs).dtype.is_inexact


def _narrow_before(flow: Flow, value: Value) -> Step | None:
    """The 16-bit value that `value` is, or that it was computed from elementwise; None if all of it is wide."""
    pending: list[Value] = [value]
    seen: set[str] = set()
    while pending and len(seen) < _FAR:
        current = pending.pop(0)
        if current.name in seen or not current.dtype.is_inexact:
            continue
        seen.add(current.name)
        step = flow.step(current)
        if current.dtype.is_narrow:
            return flow.origin(current)
        row = lookup(step.node.op) if step.node is not None else None
        if row is not None and row.kind in ("movement", "elementwise", "cast", "contraction") and step.node is not None:
            pending += step.node.inputs
    return None


def _is_undone(flow: Flow, narrow: Step) -> bool:
    """Whether autocast rounded it: TC301 says so where the program had asked for float32."""
    node = narrow.node
    return narrow.why == "autocast" or (node is not None and any(flow.step(v).why == "autocast" for v in node.inputs))


def _ancestors(flow: Flow, node: Node) -> set[str]:
    found: set[str] = set()
    pending = list(node.inputs)
    while pending and len(found) < 2 * _FAR:
        value = pending.pop()
        if value.name not in found:
            found.add(value.name)
            producer = flow.producers.get(value.name)
            if producer is not None:
                pending += producer.inputs
    return found


def _angle(flow: Flow, node: Node, narrow: Step) -> Finding:
    value = next(node.inputs)
    dtype = narrow.value.dtype
    origin = origin_place(flow, narrow)
    where = [origin] if origin is not None and origin.site != node.site else []
    source = narrow.source
    given = f", computed from `{source.path}` {source.value}" if source is not None and source.value != value else ""
    buffer = source is not None and source.kind in ("buffer", "input", "parameter")
    return Finding(
        CODE,
        "warning",
        f"an angle is computed in {dtype}",
        (Place("symptom", node.site, f"{operation(node)} of {value}{given}"), *where),
        _spacing(dtype),
        f"keep `{source.path}` in float32: a module-wide `.to({dtype})` casts it too"
        if buffer and source is not None
        else f"compute the angle in float32, and convert {operation(node)}'s result",
    )


def _spacing(dtype: DType) -> str:
    bits = dtype.mantissa_bits + 1
    return f"{dtype} has {bits} significant bits: from {2**bits} radians on, neighbouring angles are 2 radians apart"


def _schedule(cast: Node, distinct: int, left: int) -> Finding:
    source, result = next(cast.inputs), cast.outputs[0]
    assert result is not None, "a cast has a result"
    return Finding(
        CODE,
        "warning",
        f"an ordered sequence of {distinct} values keeps {left} of them in {result.dtype}",
        (Place("symptom", cast.site, f"{source} -> {result.dtype}: {distinct} distinct values become {left}"),),
        f"{result.dtype} has {result.dtype.mantissa_bits + 1} significant bits; neighbours in a schedule, positions or "
        "timesteps become equal",
        f"keep it in {source.dtype}, and convert what is computed from it",
    )

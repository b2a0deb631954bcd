"""TC303: integers that a 16-bit float can't tell apart."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import article
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.dtypes import DType
from truecast.graph import Node, Value
from truecast.ops import lookup
from truecast.ops.operands import bound

CODE = "TC303"


def check(flow: Flow) -> Iterator[Finding]:
    """Casts and promotions of integers beyond 2**(mantissa bits + 1), where that is known from the numbers at hand or
    from the range that made them."""
    for node in flow.graph.nodes:
        for result in node.outputs:
            if result is None or not result.dtype.is_floating or not result.dtype.is_narrow:
                continue
            if node.site.phase != "forward":
                continue
            source = next((v for v in node.inputs if v.dtype.category == "integral"), None)
            step = flow.step(result)
            if source is None or step.why not in ("cast", "category"):
                continue
            largest = _largest(flow, node, result, source)
            limit = 2 ** (result.dtype.mantissa_bits + 1)
            if largest is not None and largest > limit:
                yield _finding(flow, node, source, result.dtype, largest, limit)


def _largest(flow: Flow, node: Node, result: Value, source: Value) -> float | None:
    effect = flow.observations.casts.get(result.name)
    if effect is not None:
        return effect.largest if effect.left < effect.distinct else None
    born = _born(flow, source)
    if born is not None and born.op.startswith("aten.arange."):
        arguments = bound(born)
        end, start, stride = arguments["end"], arguments.get("start", 0), arguments.get("step", 1)
        if all(isinstance(n, int) for n in (end, start, stride)) and stride > 0:
            return float(max(abs(start), abs(end - 1)))
    return None


def _born(flow: Flow, value: Value) -> Node | None:
    """The node that made an integer value's numbers: back through movement, not through arithmetic."""
    for step in flow.back(value):
        row = lookup(step.node.op) if step.node is not None else None
        if row is None or row.kind not in ("movement", "cast"):
            return step.node
    return None


def _finding(flow: Flow, node: Node, source: Value, dtype: DType, largest: float, limit: int) -> Finding:
    effect = flow.observations.casts.get(node.name)
    lost = f": {effect.distinct} distinct values become {effect.left}" if effect is not None else ""
    return Finding(
        CODE,
        "warning",
        f"integers up to {largest:.0f} are held in {dtype}, which counts to {limit}",
        (Place("symptom", node.site, f"{source} -> {dtype}{lost}"),),
        f"{article(dtype)} value has {dtype.mantissa_bits + 1} significant bits: beyond {limit} it skips integers",
        "keep positions and indices integers, or compute with them in float32",
    )

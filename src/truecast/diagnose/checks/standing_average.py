"""TC503: a running average in 16 bits whose weight is below half a unit in the last place: it stands still."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.graph import Node, Value
from truecast.ops.operands import bound

CODE = "TC503"
_BATCH_NORMS = frozenset(("aten.native_batch_norm.default", "aten._native_batch_norm_legit_functional.default"))


def check(flow: Flow) -> Iterator[Finding]:
    """In-place lerp and mul on 16-bit tensors with a weight (a decay) that rounding swallows."""
    for node in flow.graph.nodes:
        result = node.outputs[0] if node.outputs else None
        if result is None or not result.dtype.is_narrow or node.site.phase != "forward":
            continue
        weight = _weight(flow, node)
        if node.op in _BATCH_NORMS:
            yield from _statistics(node)
        elif weight is not None and 0 < weight < _half_unit(result):
            yield _finding(node, result, weight)


def _statistics(node: Node) -> Iterator[Finding]:
    """Running statistics of a batch norm in 16 bits with a momentum that rounding swallows."""
    arguments = bound(node)
    mean, momentum = arguments.get("running_mean"), arguments.get("momentum")
    training = arguments.get("training", True)
    if not isinstance(mean, Value) or not mean.dtype.is_narrow or not isinstance(momentum, float):
        return
    if training and 0 < momentum < _half_unit(mean):
        yield _finding(node, mean, momentum)


def _half_unit(value: Value) -> float:
    """Half the spacing of the dtype relative to the number: 2**-(m + 2) at its smallest, just below a power of two."""
    return 2.0 ** -(value.dtype.mantissa_bits + 2)


def _weight(flow: Flow, node: Node) -> float | None:
    """The share of the new value in an in-place average; None for another operation."""
    function = flow.call(node).function
    arguments = bound(node)
    if node.op.startswith("aten.lerp.") and function.endswith("_"):
        weight = arguments["weight"]
        return weight if isinstance(weight, float) else None
    if node.op.startswith("aten.mul.") and function.endswith("mul_"):
        factor = arguments["other"]
        return 1 - factor if isinstance(factor, float) and 0.5 < factor < 1 else None
    return None


def _finding(node: Node, result: Value, weight: float) -> Finding:
    return Finding(
        CODE,
        "warning",
        f"a running average in {result.dtype} stands still",
        (Place("symptom", node.site, f"{result}, weight of the new value {weight:.3g}"),),
        f"the average changes by {weight:.3g} of its distance to the new value, and {result.dtype} holds 1 part in "
        f"{2 ** (result.dtype.mantissa_bits + 1)}: the change is rounded away",
        "keep averages in float32",
    )

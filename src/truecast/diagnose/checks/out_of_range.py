"""TC305: numbers that the dtype they are put into can't hold."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import article, operation
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.dtypes import DType
from truecast.graph import Node
from truecast.observations import Overflow

CODE = "TC305"
_FILLS = frozenset(
    (
        *("full", "full_like", "new_full", "fill", "masked_fill", "scalar_tensor", "where"),
        *("clamp", "clamp_min", "clamp_max", "mul", "add"),
    )
)


# Where a tiny number guards against zero; a factor that vanishes is another matter (a learning rate, a weight of 0).
_GUARDS = frozenset(("add", "clamp", "clamp_min", "full", "full_like", "new_full", "fill"))


def check(flow: Flow) -> Iterator[Finding]:
    """Literals beyond the largest finite number of the result's dtype, and casts in which finite numbers became
    infinite; numbers that PyTorch itself refuses to put in."""
    for overflow in flow.observations.overflows:
        yield _refused(overflow)
    for node in flow.graph.nodes:
        result = node.outputs[0] if node.outputs else None
        if result is None or not result.dtype.is_floating or node.site.phase != "forward":
            continue
        effect = flow.observations.casts.get(result.name)
        if effect is not None and effect.overflowed:
            yield _cast(node, result.dtype, effect.overflowed, effect.largest)
        elif operation(node) in _FILLS:
            for number in (*node.args, *(a for _, a in node.kwargs)):
                if type(number) in (int, float) and beyond(number, result.dtype):
                    yield _literal(node, result.dtype, float(number))
                elif type(number) is float and operation(node) in _GUARDS and _vanishes(number, result.dtype):
                    yield _vanishing(node, result.dtype, number)


def largest(dtype: DType) -> float:
    """The largest finite number of a floating dtype with infinities: (2 - 2**-m) * 2**bias."""
    bias = 2 ** (dtype.exponent_bits - 1) - 1
    return (2 - 2.0**-dtype.mantissa_bits) * 2.0**bias


def beyond(number: float, dtype: DType) -> bool:
    """Whether a finite number becomes infinite in a floating dtype: past the largest by half a unit in its last
    place."""
    finite = number not in (float("inf"), float("-inf")) and number == number
    return finite and dtype.bits >= 16 and abs(number) > largest(dtype) * (1 + 2.0 ** -(dtype.mantissa_bits + 2))


def _vanishes(number: float, dtype: DType) -> bool:
    """Whether a number that isn't zero rounds to zero: at most half the smallest subnormal, 2**(1 - bias - m)."""
    bias = 2 ** (dtype.exponent_bits - 1) - 1
    return dtype.bits >= 16 and 0 < abs(number) <= 2.0 ** -(bias + dtype.mantissa_bits)


def _vanishing(node: Node, dtype: DType, number: float) -> Finding:
    bias = 2 ** (dtype.exponent_bits - 1) - 1
    return Finding(
        CODE,
        "warning",
        f"{number:.6g} is zero in {dtype}",
        (Place("symptom", node.site, f"{operation(node)} -> {node.outputs[0]}"),),
        f"the smallest number of {dtype} is {2.0 ** (1 - bias - dtype.mantissa_bits):.3g}: added to zero it stays "
        "zero, and a division or logarithm that it was to guard gives infinity or NaN",
        "take it from the dtype at hand: torch.finfo(x.dtype).tiny; or compute the guarded expression in float32",
    )


def _cast(node: Node, dtype: DType, count: int, most: float) -> Finding:
    return Finding(
        CODE,
        "warning",
        f"finite numbers become infinite in {dtype}",
        (Place("symptom", node.site, f"{next(node.inputs)} -> {dtype}: {count} overflow, the largest is {most:.4g}"),),
        f"the largest number of {dtype} is {largest(dtype):.6g}; an infinity times zero, or minus another, is NaN",
        "take the limit from the dtype at hand: torch.finfo(x.dtype).min; or scale before the cast",
    )


def _refused(overflow: Overflow) -> Finding:
    dtype = overflow.operand.dtype
    return Finding(
        CODE,
        "error",
        f"{article(dtype)} tensor can't hold {overflow.number:.6g}",
        (Place("symptom", overflow.site, f"{overflow.function} of {overflow.operand}"),),
        f"the largest number of {dtype} is {largest(dtype):.6g}: PyTorch raises",
        "take the limit from the dtype at hand: torch.finfo(x.dtype).min",
    )


def _literal(node: Node, dtype: DType, number: float) -> Finding:
    return Finding(
        CODE,
        "warning",
        f"{article(dtype)} tensor can't hold {number:.6g}",
        (Place("symptom", node.site, f"{operation(node)} -> {node.outputs[0]}"),),
        f"the largest number of {dtype} is {largest(dtype):.6g}: it becomes infinite, or PyTorch raises; an infinity "
        "times zero is NaN",
        "take the limit from the dtype at hand: torch.finfo(x.dtype).min",
    )

"""Operands whose dtypes an operation refuses: PyTorch's own error with the line that brought the other dtype in.

Fake kernels let linear and layer_norm take mixed dtypes (law N12); the contracts of the ops table don't.
"""

from __future__ import annotations

from typing import Any

from truecast import dtypes, ops
from truecast.capture.device.lowered_graph import of_call
from truecast.capture.device.state import state
from truecast.capture.device.values import Lazy, Meta, Record
from truecast.capture.signature import casts_for, violation
from truecast.dtypes import DType
from truecast.graph import Node, Value, values_in
from truecast.ops.contracts import Violation
from truecast.ops.schema import bind


class Refusal:
    """A contract that a call breaks. agreed: its operands' metas once they are cast as on_mismatch = "cast" casts
    them; operands: positions of those that disagree, each with its dtype."""

    def __init__(
        self, violation: Violation, agreed: tuple[Meta, ...] | None, operands: list[tuple[int, DType]]
    ) -> None:
        self.violation, self.agreed, self.operands = violation, agreed, operands

    def judge(self, operands: list[Lazy]) -> None:
        """Raises what PyTorch raises, unless the policy in force casts."""
        if self.agreed is None or state.tape.executor.on_mismatch(state.tape.policy) == "error":
            raise self.noted(operands)

    def noted(self, operands: list[Lazy]) -> Exception:
        error = self.violation.raised()
        error.add_note(f"in {_place(state.tracker.here().site())}")
        for position, dtype in self.operands:
            origin = origin_of(operands[position], dtype)
            if origin is not None:
                error.add_note(origin)
        return error


def broken_contract(
    op: str, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...], metas: tuple[Meta, ...], numbers: Any
) -> Refusal | None:
    """The contract that a call of `op` breaks, or None."""
    row = ops.lookup(op)
    if row is None or not row.contracts:
        return None
    values, node = of_call(op, args, kwargs, metas, numbers)
    broken = violation(op, row, node.args, node.kwargs)
    if broken is None:
        return None
    casts = casts_for(op, row, node.args, node.kwargs)
    return Refusal(broken, _agreed(node, casts, values, metas) if casts else None, _positions(node, broken, values))


def _agreed(node: Node, casts: dict[str, DType], values: list[Value], metas: tuple[Meta, ...]) -> tuple[Meta, ...]:
    wanted = dict(_named(node, casts))
    return tuple(
        Meta.of(dtypes.torch_dtype(wanted[v.name]), m.shape, m.strides, m.offset) if v.name in wanted else m
        for v, m in zip(values, metas, strict=True)
    )


def _positions(node: Node, broken: Violation, values: list[Value]) -> list[tuple[int, DType]]:
    """The operands that disagree; the one with the wider dtype, which was brought in, first."""
    index = {v.name: i for i, v in enumerate(values)}
    found = [(index[name], dtype) for name, dtype in _named(node, dict(broken.operands))]
    return sorted(found, key=lambda pair: -pair[1].itemsize)[:1]


def _named(node: Node, by_argument: dict[str, DType]) -> list[tuple[str, DType]]:
    """(value name, dtype) for the values of the schema arguments in `by_argument`."""
    arguments = bind(node.op, node.args, node.kwargs)
    return [(value.name, dtype) for name, dtype in by_argument.items() for value in values_in((arguments.get(name),))]


def origin_of(value: Lazy, dtype: DType) -> str | None:
    """The line that made a value of `dtype` out of others, on the way to `value`; None if that was run already."""
    wanted = dtypes.torch_dtype(dtype)
    record = value.record
    found: Record | None = None
    while record is not None:
        found = record
        carriers = [o for o in record.operands if o.dtype is wanted]
        if len(carriers) < len(record.operands) or not carriers:
            break
        record = next((o.record for o in carriers if o.record is not None), None)
    if found is None:
        return None
    site = found.position.site()
    operands = ", ".join(map(repr, (o.meta for o in found.operands)))
    name = found.spec.op.split(".")[1]
    made = f"{name}({operands}) -> {dtype}"
    expression = f"\n    {site.expression}" if site.expression else ""
    return f"{dtype} comes from {_place(site)}: {made}{expression}"


def _place(site: Any) -> str:
    return f"{site}{f', in {site.function}' if site.function else ''}"

"""What the tape has to know of an ATen overload, learnt once from its schema and the ops table."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from truecast import ops
from truecast.capture import torch_seam
from truecast.capture.aliasing import IDENTITY
from truecast.capture.functional import FunctionalForm, functional_form, is_view, writes
from truecast.errors import CaptureError
from truecast.ops.schema import schema

# plain: makes new tensors. identity: a view that changes nothing. inplace_view: changes the shape of its argument.
# rebind: gives its argument other memory. constant: brings in a tensor made from Python numbers.
# composite: PyTorch runs other operations instead, which are recorded one by one. query: asks for a property that
# says nothing about numbers (a device, a profiler mark), and is not recorded.
Role = Literal["plain", "query", "view", "identity", "write", "inplace_view", "rebind", "constant", "composite"]

_REBINDS = frozenset(("set_", "resize_", "resize_as_"))
_CONSTANTS = frozenset(("aten.lift_fresh.default", "aten.lift_fresh_copy.default", "aten.lift.default"))


@dataclass(frozen=True, slots=True)
class Overload:
    """name: "aten.add_.Tensor". stem: what its results are named after. form: of a write, its functional form.
    written: of a write, (schema argument, its position or -1 for keyword-only) for each written argument."""

    name: str
    stem: str
    role: Role
    form: FunctionalForm | None = None
    written: tuple[tuple[str, int], ...] = ()
    written_returns: tuple[bool, ...] = ()
    row: ops.Op | None = None

    def targets(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        """The tensors that a call writes, those of a list one by one."""
        found: list[torch.Tensor] = []
        for name, at in self.written:
            argument = args[at] if 0 <= at < len(args) else kwargs.get(name)
            if isinstance(argument, torch.Tensor):
                found.append(argument)
            elif argument is not None:
                found += argument
        return found

    def without_written(self, result: Any) -> list[Any]:
        """What a call returns besides its written arguments."""
        if result is None or all(self.written_returns):
            return []
        leaves = [result] if isinstance(result, torch.Tensor) else list(result)
        return [r for r, is_target in zip(leaves, self.written_returns, strict=True) if not is_target]

    def with_originals(self, result: Any, targets: Sequence[torch.Tensor]) -> Any:
        """What the program gets back: for a written argument the argument itself, never its twin."""
        if not any(self.written_returns):
            return result
        if isinstance(result, torch.Tensor):
            return targets[0]
        originals = iter(targets)
        return type(result)(
            next(originals) if is_target else r for r, is_target in zip(result, self.written_returns, strict=True)
        )


@functools.cache
def learn(func: Any) -> Overload:
    """The Overload of a torch OpOverload. Raises CaptureError for what is none (a higher-order operation)."""
    if not torch_seam.is_overload(func):
        raise CaptureError(
            f"{func} takes functions as arguments",
            why="a Graph is a flat list of operations: it has no branches and no loops of its own",
            help="call the function directly, or choose an implementation without it (attn_implementation='sdpa')",
        )
    name = f"{func.namespace}.{func._opname}.{func._overloadname}"
    stem = func._opname.strip("_") or "op"
    if func.namespace in ("prim", "profiler"):
        return Overload(name, stem, "query")
    row = ops.lookup(name)
    form = schema(name)
    written = tuple((p.name, -1 if p.keyword_only else i) for i, p in enumerate(form.parameters) if p.written)
    role = _role(func, name, row)
    functional = functional_form(name) if role == "write" else None
    if functional is not None and not written:
        position = {p.name: i for i, p in enumerate(form.parameters)}
        written = tuple((n, position[n]) for n in functional.written)
    return Overload(name, stem, role, functional, written, form.written_returns, row)


def _role(func: Any, name: str, row: ops.Op | None) -> Role:
    if name in _CONSTANTS:
        return "constant"
    if torch_seam.is_implicit_composite(func) and (row is None or row.kind == "composite" or is_view(name)):
        return "composite"
    if func._opname in _REBINDS:
        return "rebind"
    if torch.Tag.inplace_view in func.tags:
        return "inplace_view"
    if writes(name):
        return "write"
    if is_view(name):
        return "identity" if name in IDENTITY else "view"
    return "plain"

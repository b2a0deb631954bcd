"""Operations that PyTorch makes of others and whose operands' contents it looks at on the CPU only: what they demand is
checked, and they go PyTorch's own way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from truecast.capture import torch_backend
from truecast.capture.device.checks import Check, within
from truecast.capture.device.dispatch import demand
from truecast.capture.device.state import state
from truecast.capture.device.tensor import PjrtTensor
from truecast.ops.schema import overload


def kernels() -> dict[str, Callable[..., Any]]:
    """The kernels, by overload."""
    return {"one_hot": _one_hot(), "quantile": _quantile("quantile"), "nanquantile": _quantile("nanquantile")}


def _one_hot() -> Callable[..., Any]:
    name = "aten.one_hot.default"
    whole = torch_backend.composite_implicit(overload(name))

    def run(self: torch.Tensor, num_classes: int = -1) -> Any:
        if isinstance(self, PjrtTensor) and self.dtype is torch.int64 and self.numel():
            checks = [within(0, 0, None, lambda found: RuntimeError("Class values must be non-negative."))]
            if num_classes > 0:
                words = "Class values must be smaller than num_classes."
                checks.append(within(0, None, num_classes - 1, lambda found: RuntimeError(words)))
            _demand(name, self, checks)
        return whole(self, num_classes)

    return run


def _quantile(called: str) -> Callable[..., Any]:
    name = f"aten.{called}.default"
    whole = torch_backend.composite_implicit(overload(name))

    def run(self: torch.Tensor, q: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        if isinstance(q, PjrtTensor) and q.dtype.is_floating_point and q.numel():
            words = "quantile() q values must be in the range [0, 1]"
            _demand(name, q, [within(0, 0, 1, lambda found: RuntimeError(words))])
        return whole(self, q, *arguments, **keywords)

    return run


def _demand(op: str, operand: PjrtTensor, checks: list[Check]) -> None:
    with state.tape.lock:
        state.tape.turn()
        demand(op, operand, tuple(checks))

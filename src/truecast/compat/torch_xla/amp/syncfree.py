"""Optimizers whose step leaves everything as it was where `found_inf` is not zero, without asking the device for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from truecast.compat.missing import attribute_of

__getattr__ = attribute_of(__name__)


class _Skipping(torch.optim.Optimizer):
    def step(self, closure: Callable[[], Any] | None = None, found_inf: torch.Tensor | None = None) -> Any:
        """One step. found_inf: a tensor of one element; what it is decides on the device whether the step counts."""
        if found_inf is None:
            return super().step(closure)
        before = {id(t): t.detach().clone() for t in self._written()}
        result = super().step(closure)
        skipped = found_inf.reshape(()) != 0
        with torch.no_grad():
            for tensor in self._written():
                old = before.get(id(tensor))  # state that this step made starts from zeros
                old = torch.zeros_like(tensor) if old is None else old
                tensor.copy_(torch.where(skipped.to(tensor.device), old, tensor))
        return result

    def _written(self) -> Iterator[torch.Tensor]:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    yield parameter
                    yield from (v for v in self.state[parameter].values() if isinstance(v, torch.Tensor))


class SGD(_Skipping, torch.optim.SGD):
    """torch.optim.SGD with a step that can be skipped on the device."""


class Adam(_Skipping, torch.optim.Adam):
    """torch.optim.Adam with a step that can be skipped on the device."""


class AdamW(_Skipping, torch.optim.AdamW):
    """torch.optim.AdamW with a step that can be skipped on the device."""

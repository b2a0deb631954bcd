"""The tensor of the device: a wrapper subclass that knows its Meta and its place in memory.

What happens to an operation on it is dispatch.py's affair.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from truecast.capture.aliasing import Alias
from truecast.capture.device.state import state
from truecast.capture.device.values import Meta


class PjrtTensor(torch.Tensor):
    """A tensor on the `pjrt` device: a Meta and a place in memory; its contents may still be pending."""

    _meta: Meta
    _alias: Alias

    @staticmethod
    def make(meta: Meta, alias: Alias) -> PjrtTensor:
        tensor = torch.Tensor._make_wrapper_subclass(
            PjrtTensor,
            meta.shape,
            strides=meta.strides,
            storage_offset=meta.offset,
            dtype=meta.dtype,
            device=state.device,
        )
        tensor._meta = meta
        tensor._alias = alias
        return tensor

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return state.dispatch(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return state.reader.text(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return state.reader.reduced(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> PjrtTensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
            )
        copied: PjrtTensor = self.detach().clone()  # type: ignore[assignment]
        memo[id(self)] = copied
        for name, value in self.__dict__.items():
            if name not in ("_meta", "_alias"):
                setattr(copied, name, copy.deepcopy(value, memo))
        copied.requires_grad_(self.requires_grad)
        if self.grad is not None:
            copied.grad = copy.deepcopy(self.grad, memo)
        return copied

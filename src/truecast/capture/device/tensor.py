"""The tensor of the device: a wrapper subclass that knows its Meta and its place in memory.

What happens to an operation on it is handlers.py's affair.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from truecast.capture import torch_backend, torch_export
from truecast.capture.aliasing import Alias
from truecast.capture.device.state import state
from truecast.capture.device.values import Lazy, Meta

new_wrapper = torch_backend.new_wrapper
_strided = torch.strided
_data: Any = torch.Tensor.data


class PjrtTensor(torch.Tensor):
    """A tensor on the `pjrt` device: a Meta and a place in memory; its contents may still be pending."""

    is_of_a_device = True  # its operations are the device's, not made of others: a recording sees them, not below them
    _meta: Meta
    _alias: Alias[Lazy]

    # Functions of torch need no hook of ours, only operations do; and results are PjrtTensors as they are.
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def make(meta: Meta, alias: Alias[Lazy]) -> PjrtTensor:
        if meta.is_plain:
            tensor = new_wrapper(PjrtTensor, meta.shape, None, None, None, meta.dtype, _strided, state.device)
        else:
            strides, offset = meta.strides, meta.offset
            tensor = new_wrapper(PjrtTensor, meta.shape, strides, offset, None, meta.dtype, _strided, state.device)
        tensor._meta = meta
        tensor._alias = alias
        return tensor

    def become(self, other: PjrtTensor) -> None:
        """This tensor object has the shape, dtype and memory of `other` from now on (set_, resize_, t_, .data)."""
        _data.__set__(self, other)
        self._meta, self._alias = other._meta, other._alias

    @property
    def data(self) -> Any:
        return _data.__get__(self)

    @data.setter
    def data(self, other: torch.Tensor) -> None:
        _data.__set__(self, other)
        if isinstance(other, PjrtTensor):
            self._meta, self._alias = other._meta, other._alias

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return state.dispatch(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return state.host.text(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return state.host.reduced(self)

    def __dlpack__(self, *args: Any, **options: Any) -> Any:
        """A capsule of a copy of the contents on the CPU, where every library can read them."""
        return state.host.download(self.detach()).__dlpack__(*args, **options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return torch.empty(0, device="cpu").__dlpack_device__()

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )

    def numpy(self, *, force: bool = False) -> Any:
        return self.detach().cpu().resolve_conj().resolve_neg().numpy() if force else self.__array__()

    def storage(self) -> Any:
        raise NotImplementedError(
            "a tensor on the pjrt device has no storage that a pointer leads to; copy it with .cpu()"
        )

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def __coerce_same_metadata_as_tangent__(self, metadata: Any, cls: type | None = None) -> PjrtTensor | None:
        """AOTAutograd traces with fake tensors, and expects a gradient that is none of the device's class."""
        return self if metadata is None else None

    def __copy__(self) -> torch.Tensor:
        """A leaf that shares this tensor's memory, of the same kind: a Parameter's is one."""
        if isinstance(self, torch.nn.Parameter):
            copied: torch.Tensor = torch.nn.Parameter(self.detach(), self.requires_grad)
        else:
            copied = self.detach().requires_grad_(self.requires_grad)
        for name, value in self.__dict__.items():
            if name not in ("_meta", "_alias"):
                setattr(copied, name, value)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> PjrtTensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment.  If you were attempting to deepcopy a module, this may be because of a torch.nn.utils."
                "weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001"
            )
        copied: PjrtTensor = self.detach().clone()
        memo[id(self)] = copied
        for name, value in self.__dict__.items():
            if name not in ("_meta", "_alias"):
                setattr(copied, name, copy.deepcopy(value, memo))
        copied.requires_grad_(self.requires_grad)
        if self.grad is not None:
            copied.grad = copy.deepcopy(self.grad, memo)
        return copied


def show_as(device: torch.device) -> None:
    """Tensors of the device say that they are on `device` from now on, in Python; PyTorch itself knows better."""
    state.shown = device
    if device == state.device:
        del PjrtTensor.device, PjrtTensor.is_xla
        return
    PjrtTensor.device = property(lambda self: device)
    PjrtTensor.is_xla = property(lambda self: device.type == "xla")


torch_export.hide_from_dynamo(PjrtTensor.__dict__["__torch_dispatch__"].__func__)
torch_export.plain_to_dynamo(PjrtTensor)

"""Storages of the device: what torch.load, default_collate and the classic constructors handle in a tensor's place.

PyTorch would take the memory of torch.UntypedStorage(n, device="pjrt") from an allocator in C++, which a device in
Python doesn't have, and end the process. Here such a storage is memory of the CPU that says it is the device's. A
tensor that is set to a storage gets a copy of its contents; those that are set to one of the device share their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from truecast.capture import torch_backend, torch_seam
from truecast.capture.device.state import state
from truecast.capture.device.tensor import PjrtTensor

AsStrided = Callable[[PjrtTensor, tuple[int, ...], tuple[int, ...], int], PjrtTensor]


class PjrtStorage(torch.UntypedStorage):
    """Memory of the CPU whose contents go to the device with the first tensor that is set to it."""

    whole: PjrtTensor | None = None  # what that tensor's dtype makes of all of it

    @property
    def device(self) -> torch.device:
        return state.device

    @property
    def is_cuda(self) -> bool:
        return False


def make(*arguments: Any) -> PjrtStorage:
    """A storage of the device from what torch.UntypedStorage takes: a number of bytes, or a list of them."""
    return torch_backend.new_storage(PjrtStorage, *arguments)


def set_to(tensor: PjrtTensor, storage: Any, *place: Any, as_strided: AsStrided) -> PjrtTensor:
    """The tensor becomes what lies in the storage: all of it, or at (offset, size, stride)."""
    dtype = tensor._meta.dtype
    if storage.device.type == state.device.type and not isinstance(storage, PjrtStorage):
        return tensor.storage()  # raises: what a tensor of the device has in a storage's place leads nowhere
    count = storage.nbytes() // dtype.itemsize
    offset, size, stride = (*place, None)[:3] if place else (0, (count,), (1,))
    size = tuple(size)
    stride = tuple(stride) if stride else torch.empty(size, device="meta").stride()
    whole = storage.whole if isinstance(storage, PjrtStorage) else None
    if whole is None or whole._meta.dtype is not dtype:
        with torch_seam.without_modes():
            contents = torch.empty(0, dtype=dtype, device="cpu").set_(storage)
            if offset == 0 and contents.numel() == torch.Size(size).numel():
                shaped = contents.as_strided(size, stride)
                if torch.empty_like(shaped).stride() == stride:  # dense: each element once, in some order
                    contents = shaped
        whole = state.host.upload(contents)
        if isinstance(storage, PjrtStorage):
            storage.whole = whole
    meta = whole._meta
    same = (meta.shape, meta.strides, meta.offset) == (size, stride, offset)
    tensor.become(PjrtTensor.make(meta, whole._alias) if same else as_strided(whole, size, stride, offset))
    return tensor

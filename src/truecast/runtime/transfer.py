"""torch tensors to device arrays and back: sharing memory where that is possible, by a counted copy where not.

A CPU tensor is shared with XLA:CPU if it is dense, row-major, aligned to 64 bytes, and held in its own
dtype. The array then reads whatever the tensor holds at that time, so whoever shares must be done with the
array before anyone may write to the tensor: a compiled program waits for its results before it returns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.dlpack import from_dlpack, to_dlpack

from truecast import dtypes
from truecast.dtypes import DType
from truecast.errors import UnsupportedError, UsageError
from truecast.runtime import pjrt_seam
from truecast.runtime.client import Client

_ALIGNMENT = 64  # bytes; what XLA:CPU's code assumes of its arguments


@dataclass
class Transfers:
    """How many tensors crossed, and how. `reasons`: for each reason of a copy, how often."""

    shared: int = 0
    copied: int = 0
    copied_bytes: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def count_copy(self, tensor: torch.Tensor, reason: str) -> None:
        self.copied += 1
        self.copied_bytes += tensor.nbytes
        self.reasons[reason] = self.reasons.get(reason, 0) + 1


def to_device(tensor: torch.Tensor, held: DType, client: Client, transfers: Transfers) -> Any:
    """The tensor's contents as an array on the client's device, in the dtype `held`."""
    if tensor.is_meta:
        raise UsageError(
            "a tensor on the meta device has no contents to compute with", help="to run a program, give it real tensors"
        )
    if not tensor.is_cpu:
        transfers.count_copy(tensor, f"from {tensor.device.type}")
        tensor = tensor.detach().cpu()
    reason = _why_not_shared(tensor, held)
    if reason:
        transfers.count_copy(tensor, reason)
        tensor = _dense(tensor, held)
    host = pjrt_seam.alias(to_dlpack(tensor), client.host)
    if client.target != "cpu":
        transfers.count_copy(tensor, f"to {client.target}")
        return jax.device_put(host, client.device)
    if not reason:
        transfers.shared += 1
    return host


def to_torch(array: Any, dtype: DType, client: Client, transfers: Transfers) -> torch.Tensor:
    """The array, once it is computed, as a tensor of `dtype` that owns its memory. It must be nobody else's."""
    if client.target != "cpu":
        array = jax.device_put(array, client.host)
        array.block_until_ready()
    tensor = from_dlpack(pjrt_seam.hand_over(array))
    wanted = dtypes.torch_dtype(dtype)
    if client.target != "cpu":
        transfers.count_copy(tensor, f"from {client.target}")
    elif tensor.dtype is wanted:
        transfers.shared += 1
    if tensor.dtype is not wanted:
        transfers.count_copy(tensor, f"held as {dtypes.of(tensor.dtype)}")
        tensor = tensor.to(wanted)
    return tensor


def _why_not_shared(tensor: torch.Tensor, held: DType) -> str:
    if tensor.layout is not torch.strided:
        raise UnsupportedError(
            f"a {tensor.layout} tensor can't go to a device",
            why="XLA has dense arrays only",
            help="convert it with .to_dense()",
        )
    if isinstance(tensor, FakeTensor):
        raise UsageError(
            "a fake tensor has no contents to compute with",
            help="a program can be lowered, saved and looked at with fake tensors; to run it, give it real ones",
        )
    if tensor.dtype is not dtypes.torch_dtype(held):
        return f"held as {held}"
    if tensor.is_conj():
        return "conjugate view"
    if tensor.is_neg():
        return "negative view"
    if not tensor.is_contiguous():
        return "not contiguous"
    return "not aligned to 64 bytes" if tensor.data_ptr() % _ALIGNMENT else ""


def _dense(tensor: torch.Tensor, held: DType) -> torch.Tensor:
    """A fresh dense copy, which torch's allocator aligns to 64 bytes."""
    copy = torch.empty(tensor.shape, dtype=dtypes.torch_dtype(held), device="cpu")
    with torch.no_grad():
        return copy.copy_(tensor)

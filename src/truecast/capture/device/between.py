"""Operations between the device and the CPU: conversions, single numbers, tensors made elsewhere."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from truecast.capture import torch_seam
from truecast.capture.device.dispatch import OffDevice, Recorder, fresh
from truecast.capture.device.state import state
from truecast.capture.device.tensor import PjrtTensor

aten = torch.ops.aten
_record_to_copy = Recorder(aten._to_copy.default)


def to_copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source = args[0]
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    refuse_index(device)
    if not isinstance(source, PjrtTensor):
        return state.host.upload(source if dtype is None else source.to(dtype))
    if device is None or device.type == state.device.type:
        given = {"dtype": dtype or source._meta.dtype}
        if kwargs.get("memory_format") is not None:
            given["memory_format"] = kwargs["memory_format"]
        try:
            spec, values = _record_to_copy(args, given)
        except OffDevice as off:
            return state.host.on_cpu(func, args, kwargs, off.counted)
        meta, value = spec.outputs[0], values[0]
        assert meta is not None and value is not None
        return fresh(meta, value)
    found = state.host.download(source)
    kept = {n: a for n, a in kwargs.items() if n in ("dtype", "layout", "pin_memory", "memory_format")}
    with torch_seam.without_modes():
        return func(found, **kept, device=device)


def refuse_index(device: torch.device | None) -> None:
    """Raises RuntimeError for another index of the device than 0."""
    if device is not None and device.index and device.type == state.device.type:
        raise RuntimeError(
            f"invalid device ordinal: {device}. There is one {device.type} device in a process, {device.type}:0"
        )


def item(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    found = state.host.download(args[0])
    with torch_seam.without_modes():
        return found.item()


def made_elsewhere(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """zeros_like(x, device="cpu"), x.new_empty(..., device="cpu"): of x only the shape matters. Of other tensors of the
    device (the ends of torch.linspace) the numbers do."""
    first: Any = args[0] if func._opname.endswith("_like") or func._opname.startswith("new_") else None

    def here(leaf: Any) -> Any:
        if not isinstance(leaf, PjrtTensor):
            return leaf
        if leaf is not first:
            return state.host.download(leaf)
        meta = leaf._meta
        return torch.empty_strided(meta.shape, meta.strides, dtype=meta.dtype, device="cpu")

    with torch_seam.without_modes():
        args, kwargs = pytree.tree_map(here, (args, kwargs))
        return func(*args, **kwargs)

"""Advanced indexing on the device: indices and masks from the CPU or the device, and PyTorch's own errors.

A mask decides how many elements a result has: its contents are waited for (as on every device), and it becomes
index tensors. Contents of CPU indices are known, so an index out of bounds raises at once; indices on the device are
bounds.py's affair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from truecast.capture import torch_seam
from truecast.capture.device.state import state
from truecast.capture.device.tensor import PjrtTensor

Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def reading(handler: Handler) -> Handler:
    """index: every mask becomes indices."""

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return handler(func, (args[0], _indices(args[0], args[1], True), *args[2:]), kwargs)

    return handle


def writing(handler: Handler) -> Handler:
    """index_put: one number written through a mask needs no indices, and no wait."""

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target, indices, values, *rest = args
        if isinstance(target, PjrtTensor) and isinstance(values, torch.Tensor):
            if not isinstance(values, PjrtTensor) and values.dim() == 0:
                values = state.host.upload(values)
            accumulates = rest[0] if rest else kwargs.get("accumulate", False)
            if not accumulates and _fills(indices, values) and torch.can_cast(values.dtype, target.dtype):
                values = values.to(target.dtype)
        indices = _indices(target, indices, values.numel() != 1)
        return handler(func, (target, indices, values, *rest), kwargs)

    return handle


def _fills(indices: Any, values: torch.Tensor) -> bool:
    """Whether PyTorch takes this for masked_fill, which converts the number: for all else the dtypes must agree."""
    given = [index for index in indices if index is not None]
    return values.numel() == 1 and len(given) == 1 and given[0].dtype is torch.bool


def _indices(indexed: Any, indices: Any, masks: bool) -> list[Any]:
    shape = indexed.shape
    made: list[Any] = []
    for index in indices:
        dim = len(made)
        if index is None:
            made.append(None)
        elif index.dtype in (torch.bool, torch.uint8) and (masks or not isinstance(index, PjrtTensor)):
            made += _of_mask(index, shape, dim)
        else:
            made.append(_of_numbers(index, shape, dim, sum(i is not None for i in made)))
    return made


def _of_mask(mask: torch.Tensor, shape: torch.Size, dim: int) -> list[torch.Tensor]:
    for own, extent in enumerate(mask.shape):
        if dim + own >= len(shape) or shape[dim + own] != extent:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {own} does not match the shape of the indexed "
                f"tensor {list(shape)} at index {dim + own}"
            )
    contents = state.host.download(mask) if isinstance(mask, PjrtTensor) else mask
    with torch_seam.without_modes():
        found = contents.nonzero(as_tuple=True)
    return [state.host.upload(index) for index in found]


def _of_numbers(index: torch.Tensor, shape: torch.Size, dim: int, counted: int) -> torch.Tensor:
    """counted: how many dimensions before this one are indexed, as the kernel names it in its error."""
    if isinstance(index, PjrtTensor):
        return index
    if dim < len(shape) and index.dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
        extent = shape[dim]
        with torch_seam.without_modes():
            wrong = index[(index < -extent) | (index >= extent)]
            if wrong.numel():
                raise IndexError(
                    f"index {wrong.flatten()[0].item()} is out of bounds for dimension {counted} with size {extent}"
                )
    return state.host.upload(index)

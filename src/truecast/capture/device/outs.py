"""An `out` of another dtype than the result: most operations convert, some take no other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from truecast.capture import torch_seam
from truecast.capture.device.tensor import PjrtTensor
from truecast.capture.device.values import Meta


def refuse_dtypes(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], written: list[Any], made: Iterable[Meta | None]
) -> None:
    """Raises what PyTorch raises where an `out` has another dtype than the result: some operations take no other."""
    if all(meta is None or tensor._meta.dtype is meta.dtype for tensor, meta in zip(written, made, strict=True)):
        return

    def run_on(device: str) -> None:
        def stand_in(leaf: Any) -> Any:
            if not isinstance(leaf, PjrtTensor):
                return leaf
            meta = leaf._meta
            return torch.empty_strided(meta.shape, meta.strides, dtype=meta.dtype, device=device).zero_()

        func(*pytree.tree_map(stand_in, args), **pytree.tree_map(stand_in, kwargs))

    with torch_seam.without_modes():
        try:
            run_on("meta")
        except NotImplementedError:  # no shape function, and with it no opinion
            return
        except RuntimeError:  # in its own words; the CPU has others
            run_on("cpu")

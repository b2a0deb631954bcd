"""Dtypes, shapes and strides of an operation's results, from PyTorch's own fake kernels, remembered by Spec.

A refused call is made again on real CPU tensors of zeros, so that the user sees the exception that PyTorch
raises on the CPU, in its words; fake kernels say it in others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from truecast.capture import torch_seam
from truecast.capture.device.values import Meta, ScalarSlot, Slot, Spec

_FAKE = torch_seam.FakeTensorMode(allow_non_fake_inputs=False)


class DataDependent(Exception):
    """The shapes of the results depend on the operands' values: only real execution knows them."""


def infer(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], operands: tuple[Meta, ...]) -> list[Meta | None]:
    """The Metas of what `func` returns; `args` and `kwargs` hold Slot(i) where operand i goes.

    Raises DataDependent, or the exception that PyTorch raises on the CPU.
    """
    try:
        with _FAKE:
            fakes = [_empty(meta) for meta in operands]
            result = func(*fill(args, fakes), **fill(kwargs, fakes))
    except torch_seam.DATA_DEPENDENT as error:
        raise DataDependent(str(error)) from None
    except NotImplementedError as error:
        raise DataDependent(str(error)) from None
    except Exception:
        with torch_seam.without_modes():
            zeros = [
                torch.zeros(()).to(m.dtype).as_strided(m.shape, (0,) * len(m.shape)).contiguous() for m in operands
            ]
            func(*fill(args, zeros), **fill(kwargs, zeros))
        raise
    return [Meta.of_tensor(t) if isinstance(t, torch.Tensor) else None for t in _leaves(result)]


def fill(nest: Any, tensors: list[Any], scalars: tuple[Any, ...] = ()) -> Any:
    """`nest` with each Slot replaced by its tensor, each ScalarSlot by its number (or left, without numbers)."""

    def place(leaf: Any) -> Any:
        if type(leaf) is Slot:
            return tensors[leaf.index]
        if type(leaf) is ScalarSlot:
            return scalars[leaf.index]
        return leaf

    return pytree.tree_map(place, nest)


def _leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def _empty(meta: Meta) -> torch.Tensor:
    if meta.offset == 0:
        return torch.empty_strided(meta.shape, meta.strides, dtype=meta.dtype, device="cpu")
    needed = meta.offset + 1 + sum((n - 1) * s for n, s in zip(meta.shape, meta.strides, strict=True) if n)
    return torch.empty(needed, dtype=meta.dtype, device="cpu").as_strided(meta.shape, meta.strides, meta.offset)


class Inferred:
    """Specs by call: (func, its operands' Metas and its literals) -> Spec."""

    def __init__(self) -> None:
        self.specs: dict[tuple[Any, ...], Spec] = {}

    def miss(self, key: tuple[Any, ...], make: Callable[[], Spec]) -> Spec:
        spec = make()
        self.specs[key] = spec
        return spec

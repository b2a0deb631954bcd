"""Dtypes, shapes and strides of an operation's results, from PyTorch's own fake kernels.

A refused call is made again on real CPU tensors of zeros, so that the user sees the exception that PyTorch
raises on the CPU, in its words; fake kernels say it in others.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils import _pytree as pytree

from truecast.capture import torch_fake, torch_seam
from truecast.capture.device.values import Meta, Slot
from truecast.ops import lookup

_FAKE = torch_fake.new_fake_mode()


class SizedByContents(Exception):
    """The shapes of the results depend on the operands' values: only real execution knows them."""


class OnlyOnCpu(Exception):
    """PyTorch has no shape function for the operation, or a stricter one than the CPU's kernel."""


def infer(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], operands: tuple[Meta, ...]) -> list[Meta | None]:
    """The Metas of what `func` returns; `args` and `kwargs` hold Slot(i) where operand i goes.

    Raises SizedByContents, OnlyOnCpu, or the exception that PyTorch raises on the CPU.
    """
    function = torch_fake.fake_rule(func) or func
    try:
        with torch_seam.without_modes(), torch_fake.quiet_fake_tensors(), _FAKE:
            fakes = [_empty(meta) for meta in operands]
            result = function(*_fill(args, fakes), **_fill(kwargs, fakes))
        _check_dimensions(func, args, kwargs, operands)
    except torch_fake.DATA_DEPENDENT as error:
        raise SizedByContents(str(error)) from None
    except NotImplementedError as error:
        raise OnlyOnCpu(str(error)) from None
    except torch_fake.unsupported_by_fake_tensors() as error:
        raise OnlyOnCpu(str(error)) from None
    except Exception as refusal:
        ask_the_cpu(func, args, kwargs, operands)
        raise OnlyOnCpu(str(refusal)) from None
    leaves = _flat(result)
    if not all(leaf is None or isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise SizedByContents("the result is no tensor")
    return [None if leaf is None else Meta.of_tensor(leaf) for leaf in leaves]


def _flat(result: Any) -> list[Any]:
    """What an operation returns, in order; a fused optimizer returns lists."""
    return [leaf for part in result for leaf in _flat(part)] if isinstance(result, list | tuple) else [result]


def ask_the_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], operands: tuple[Meta, ...]) -> None:
    """Raises what PyTorch raises on the CPU for a call that was refused, if it refuses it too."""
    with torch_seam.without_modes():
        zeros = [_zeros(meta) for meta in operands]
        drawn = torch.get_rng_state()
        try:
            func(*_fill(args, zeros), **_fill(kwargs, zeros))
        finally:
            torch.set_rng_state(drawn)


def _check_dimensions(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], operands: tuple[Meta, ...]) -> None:
    """Raises what fake kernels let pass: the IndexError of a dimension out of range (softmax), for small operands, and
    the RuntimeError of a reduction that has no value for no elements (max)."""
    names = [a.name for a in func._schema.arguments if a.name.startswith("dim")]
    of_nothing = _of_nothing(func, operands)
    if not of_nothing and (not names or sum(math.prod(m.shape) for m in operands) > _SMALL):
        return
    try:
        with torch_seam.without_modes():
            zeros = [_zeros(meta) for meta in operands]
            func(*_fill(args, zeros), **_fill(kwargs, zeros))
    except NotImplementedError:
        return
    except IndexError:
        raise
    except RuntimeError:  # what else the CPU says about zeros is about zeros, or about what only the CPU can't do
        if of_nothing:
            raise


def _of_nothing(func: Any, operands: tuple[Meta, ...]) -> bool:
    """Whether it is a reduction of tensors without elements."""
    if not operands or not all(0 in meta.shape for meta in operands):
        return False
    row = lookup(f"{func.namespace}.{func._opname}.{func._overloadname}")
    return row is not None and row.kind == "reduction"


_SMALL = 1 << 16  # elements


def _fill(nest: Any, tensors: list[torch.Tensor]) -> Any:
    return pytree.tree_map(lambda leaf: tensors[leaf.index] if type(leaf) is Slot else leaf, nest)


def _empty(meta: Meta) -> torch.Tensor:
    if meta.offset == 0:
        return torch.empty_strided(meta.shape, meta.strides, dtype=meta.dtype, device="cpu")
    needed = meta.offset + 1 + sum((n - 1) * s for n, s in zip(meta.shape, meta.strides, strict=True) if n)
    return torch.empty(needed, dtype=meta.dtype, device="cpu").as_strided(meta.shape, meta.strides, meta.offset)


def _zeros(meta: Meta) -> torch.Tensor:
    if 0 in meta.shape:
        return torch.zeros(meta.shape, dtype=meta.dtype, device="cpu")
    needed = meta.offset + 1 + sum((n - 1) * s for n, s in zip(meta.shape, meta.strides, strict=True))
    return torch.zeros(needed, dtype=meta.dtype, device="cpu").as_strided(meta.shape, meta.strides, meta.offset)

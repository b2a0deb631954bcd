"""Convolutions whose operands' dtypes don't agree: PyTorch compares them before anything is dispatched, where neither
a note about their origin nor a policy that casts (law N12) could take part.

Operands that agree go PyTorch's own way; others go to the operation below, whose contract the recorder judges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from truecast.capture import torch_backend
from truecast.ops.schema import overload

aten = torch.ops.aten


def kernels() -> dict[str, Callable[..., Any]]:
    """The kernels, by overload."""
    forward = {f"conv{n}d": _forward(n) for n in (1, 2, 3)}
    transposed = {f"conv_transpose{n}d{'' if n == 1 else '.input'}": _transposed(n) for n in (1, 2, 3)}
    return forward | transposed


def _agree(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> bool:
    return input.dtype is weight.dtype and (bias is None or bias.dtype is weight.dtype)


def _forward(n: int) -> Callable[..., Any]:
    whole = torch_backend.composite_implicit(overload(f"aten.conv{n}d.default"))
    defaults: tuple[Any, ...] = (None, 1, 0, 1, 1)

    def run(*args: Any) -> Any:
        if _agree(*args[:3]):
            return whole(*args)
        input, weight, bias, stride, padding, dilation, groups = (*args, *defaults[len(args) - 2 :])
        return _convolved(n, input, weight, bias, (stride, padding, dilation, 0), groups, False)

    return run


def _transposed(n: int) -> Callable[..., Any]:
    whole = torch_backend.composite_implicit(overload(f"aten.conv_transpose{n}d.{'default' if n == 1 else 'input'}"))
    defaults: tuple[Any, ...] = (None, 1, 0, 0, 1, 1)

    def run(*args: Any) -> Any:
        if _agree(*args[:3]):
            return whole(*args)
        input, weight, bias, stride, padding, output_padding, groups, dilation = (*args, *defaults[len(args) - 2 :])
        return _convolved(n, input, weight, bias, (stride, padding, dilation, output_padding), groups, True)

    return run


def _convolved(
    n: int, input: Any, weight: Any, bias: Any, extents: tuple[Any, ...], groups: int, is_transposed: bool
) -> Any:
    """extents: stride, padding, dilation and output padding."""
    stride, padding, dilation, output_padding = (_each(n, extent) for extent in extents)
    has_batch = input.dim() == n + 2
    batch = input if has_batch else input.unsqueeze(0)
    form = (stride, padding, dilation, is_transposed, output_padding, groups)
    made = aten.convolution.default(batch, weight, bias, *form)
    return made if has_batch else made.squeeze(0)


def _each(n: int, extent: Any) -> list[int]:
    """One number a dimension, of one for all or of a list."""
    given = [extent] if isinstance(extent, int) else list(extent)
    return given * n if len(given) == 1 else given

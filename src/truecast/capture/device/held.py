"""Which dtypes a tensor on the device may have: those that truecast knows, but the one that XLA does not have."""

from __future__ import annotations

from typing import Any

import torch

from truecast import dtypes
from truecast.dtypes import DType
from truecast.errors import UnsupportedError


def known(dtype: torch.dtype) -> DType:
    """The DType of a torch.dtype. Raises UnsupportedError for one that truecast doesn't know."""
    try:
        return dtypes.of(dtype)
    except KeyError:
        raise UnsupportedError(
            f"{dtype} on the pjrt device",
            why="truecast knows PyTorch's numbers, not quantized ones, bit fields or scales without a mantissa",
            help="keep such tensors on the CPU, or convert them there to a floating or integer dtype",
        ) from None


def refuse_unheld(dtype: torch.dtype, what: str, where: Any) -> None:
    """Raises for a dtype that the device doesn't have. what: the operation or tensor that has it, and the verb."""
    if known(dtype) is dtypes.complex32:
        raise UnsupportedError(
            f"{what} complex32, which XLA does not have",
            where=where,
            why="XLA's complex numbers have parts of float32 or float64; no other dtype stands for it (law N1)",
            help="compute in complex64: x.to(torch.complex64), or x.float() before it becomes complex",
        )

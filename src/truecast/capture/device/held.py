"""Which dtypes a tensor on the device may have: those that truecast knows, but the one that XLA does not have."""

from __future__ import annotations

from typing import Any

import torch

from truecast import dtypes
from truecast.capture.device.values import known
from truecast.errors import UnsupportedError


def refuse_unheld(dtype: torch.dtype, what: str, where: Any) -> None:
    """Raises for a dtype that the device doesn't have. what: the operation or tensor that has it, and the verb."""
    if known(dtype) is dtypes.complex32:
        raise UnsupportedError(
            f"{what} complex32, which XLA does not have",
            where=where,
            why="XLA's complex numbers have parts of float32 or float64; no other dtype stands for it (law N1)",
            help="compute in complex64: x.to(torch.complex64), or x.float() before it becomes complex",
        )

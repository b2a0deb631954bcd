"""Which dtypes a tensor on the device may have: those that XLA has, and truecast rules for."""

from __future__ import annotations

from typing import Any

import torch

from truecast import dtypes
from truecast.errors import UnsupportedError

_HELD: dict[torch.dtype, bool] = {}


def refuse_unheld(dtype: torch.dtype, what: str, where: Any) -> None:
    """Raises for a dtype that the device doesn't have. what: the operation or tensor that has it, and the verb."""
    held = _HELD.get(dtype)
    if held is None:
        held = _HELD[dtype] = _is_held(dtype)
    if held:
        return
    name = str(dtype).removeprefix("torch.")
    if dtype is torch.complex32:
        why = "XLA's complex numbers have parts of float32 or float64; no other dtype stands for it (law N1)"
        help = "compute in complex64: x.to(torch.complex64), or x.float() before it becomes complex"
        whose = "XLA"
    else:
        why = "the device holds each tensor in its own dtype (law N1), of those that truecast has rules for"
        help = "keep it on the CPU, or its bits in torch.uint8"
        whose = "the pjrt device"
    raise UnsupportedError(f"{what} {name}, which {whose} does not have", where=where, why=why, help=help)


def _is_held(dtype: torch.dtype) -> bool:
    try:
        return dtypes.of(dtype) is not dtypes.complex32
    except KeyError:
        return False

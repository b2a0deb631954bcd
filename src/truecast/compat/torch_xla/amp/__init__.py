"""torch_xla.amp: autocast, and the optimizers that skip a step without asking the device."""

from __future__ import annotations

from typing import Any

import torch

from truecast.compat.missing import attribute_of

__getattr__ = attribute_of(__name__)


def autocast(
    device: Any = "xla", enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool = True
) -> torch.autocast:
    """torch.autocast("xla"), on every kind of device; in bfloat16 unless `dtype` says otherwise."""
    if torch.device(device).type != "xla":
        raise AssertionError(f"torch_xla.amp.autocast is for XLA devices, not for {device}")
    return torch.autocast("xla", enabled=enabled, dtype=dtype or torch.bfloat16, cache_enabled=cache_enabled)

"""torch_xla.distributed.xla_multiprocessing: one process for one device, which is this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from truecast.compat.missing import attribute_of

__getattr__ = attribute_of(__name__)


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int | None = None,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> None:
    """Calls `fn(0, *args)`. Raises ValueError for more than one process."""
    if nprocs not in (None, 1):
        raise ValueError(f"unsupported nprocs ({nprocs}): there is one device; use nprocs=1 or None")
    fn(0, *args)


class MpModelWrapper:
    """A model that all processes share until each sends it to its device."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model

    def to(self, device: Any) -> torch.nn.Module:
        return self._model.to(device)


class MpSerialExecutor:
    """Runs a function in one process at a time."""

    def run(self, fn: Callable[[], Any]) -> Any:
        return fn()

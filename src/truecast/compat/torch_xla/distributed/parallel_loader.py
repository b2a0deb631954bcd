"""torch_xla.distributed.parallel_loader: batches on the device, and the end of a step before each.

The loader is read in the caller's thread: shuffling draws from the generator that the device draws from (law N8), and
two threads would make a seed mean nothing. A DataLoader's own workers read ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from truecast.compat import steps
from truecast.compat.missing import attribute_of
from truecast.compat.torch_xla.core import xla_model as xm

__getattr__ = attribute_of(__name__)


class PerDeviceLoader:
    """The batches for one device; `torch_xla.sync()` comes before every `batches_per_execution`-th, and at the end."""

    def __init__(self, loader: ParallelLoader, device: torch.device) -> None:
        self._device = device
        self._length = loader.per_device_samples
        self._batches_per_execution = loader.batches_per_execution
        self._batches = iter(loader.cpu_loader)
        self._since_sync = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return self._length()

    def __next__(self) -> Any:
        self._since_sync += 1
        if self._since_sync >= self._batches_per_execution:
            self._since_sync = 0
            steps.sync()
        try:
            batch = next(self._batches)
        except StopIteration:
            steps.sync()
            raise
        sent = xm.send_cpu_data_to_device(batch, self._device)
        return sent[0] if isinstance(batch, torch.Tensor) else sent

    next = __next__


class ParallelLoader:
    """A loader whose batches go to the device."""

    def __init__(
        self,
        cpu_loader: Any,
        devices: Sequence[Any],
        batchdim: int = 0,
        batches_per_execution: int = 1,
        loader_prefetch_size: int = 16,
        device_prefetch_size: int = 8,
        host_to_device_transfer_threads: int = 1,
        input_sharding: Any = None,
    ) -> None:
        if len(devices) != 1:
            raise ValueError(f"there is one device in a process, and {len(devices)} were given")
        if input_sharding is not None:
            raise NotImplementedError("sharded input is not provided: a process has one device")
        self.cpu_loader = cpu_loader
        self.batches_per_execution = batches_per_execution

    def per_device_loader(self, device: Any) -> PerDeviceLoader:
        """An iterator over the batches, on `device`."""
        return PerDeviceLoader(self, torch.device(device))

    def per_device_samples(self) -> int:
        return len(self.cpu_loader)

    def close(self) -> None:
        """Nothing is read ahead, so nothing is left."""


class MpDeviceLoader:
    """A loader that can be iterated again and again, whose batches go to the device."""

    def __init__(self, loader: Any, device: Any, **kwargs: Any) -> None:
        self._loader, self._device, self._options = loader, device, kwargs

    def __iter__(self) -> PerDeviceLoader:
        return ParallelLoader(self._loader, [self._device], **self._options).per_device_loader(self._device)

    def __len__(self) -> int:
        return len(self._loader)

"""The devices that are there, and what about them decides how a program compiles."""

from __future__ import annotations

import functools
import hashlib
import os
import platform as host
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truecast.errors import TargetError
from truecast.lowering.program import TARGETS
from truecast.runtime import pjrt_seam

_PLUGINS = {
    "cuda": "pip install 'jax[cuda13]' on a machine with an NVIDIA GPU",
    "tpu": "pip install 'jax[tpu]' on a TPU machine",
    "neuron": "pip install libneuronxla on a Trainium machine",
}


@dataclass(frozen=True)
class Client:
    """One target's PJRT client."""

    target: str
    handle: Any

    @functools.cached_property
    def device(self) -> Any:
        """The device programs run on: the first one of this process."""
        return self.handle.local_devices()[0]

    @functools.cached_property
    def host(self) -> Any:
        """The CPU device that shares memory with torch: jax always has one."""
        return pjrt_seam.platform_client("cpu").local_devices()[0]

    @property
    def devices(self) -> tuple[Any, ...]:
        return tuple(self.handle.local_devices())

    @functools.cached_property
    def topology(self) -> str:
        """What the compiler knows of the device and the machine, in words (law N9).

        XLA:CPU compiles for this processor's instructions and splits loops by the number of cores.
        """
        parts = [self.target, self.device.device_kind, self.handle.platform_version, f"devices={len(self.devices)}"]
        if self.target == "cpu":
            parts += [host.machine(), processor(), f"cores={core_count()}"]
        return " | ".join(parts)


@functools.cache
def client(target: str) -> Client:
    """The client of a target. Raises TargetError where this machine has no such device."""
    assert target in TARGETS, target
    try:
        return Client(target, pjrt_seam.platform_client(target))
    except RuntimeError as error:
        raise TargetError(
            f"there is no {target} device here",
            values=f"devices found: {', '.join(found()) or 'none'}",
            why=str(error).splitlines()[0],
            help=f"{plugin_hint(target)}; a program can be lowered and saved for {target} from any machine",
        ) from error


def found() -> tuple[str, ...]:
    """The targets that have a device here."""
    present = []
    for target in TARGETS:
        try:
            pjrt_seam.platform_client(target)
        except RuntimeError:
            continue
        present.append(target)
    return tuple(present)


def plugin_hint(target: str) -> str:
    """How to get a target's devices."""
    return _PLUGINS.get(target, "pip install jax")


def core_count() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def processor() -> str:
    """A digest of the processor's model and instruction sets."""
    description = host.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
        lines = {line for line in cpuinfo.read_text().splitlines() if line.startswith(wanted)}
        description += "\n".join(sorted(lines))
    return hashlib.blake2b(description.encode(), digest_size=8).hexdigest()

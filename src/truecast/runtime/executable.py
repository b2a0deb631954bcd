"""A Program as machine code: compiled ahead of time, or found in memory or on disk under its key.

What is found is used without tracing or lowering anything.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal

from truecast import settings
from truecast.lowering.fingerprint import versions
from truecast.lowering.program import Program
from truecast.numerics.plan import Plan
from truecast.runtime import pjrt_seam
from truecast.runtime.cache import DiskCache
from truecast.runtime.client import Client, client

Origin = Literal["compiled", "disk", "memory"]
_IN_MEMORY = 128  # executables kept alive though no program uses them any more


@dataclass(frozen=True)
class Executable:
    """key: what names it (law N9); origin and seconds: where this process got it from, and how long that took."""

    key: str
    loaded: pjrt_seam.Loaded
    client: Client
    origin: Origin
    seconds: float


def compile_options(plan: Plan) -> dict[str, Any]:
    """What XLA is told besides the program. Excess precision lets it drop a rounding between two operations, so
    it is allowed only where the Plan leaves every rounding to the compiler (law N3)."""
    roundings = {d.rounding for d in plan.decisions if d.compute is not None}
    return {"xla_allow_excess_precision": roundings == {"compiler"}}


def executable_key(program: Program, donate: tuple[str, ...], target: Client) -> str:
    """The program's fingerprint with all that the runtime adds: device, processor, options, donated buffers."""
    parts = (
        program.fingerprint,
        versions(),
        target.topology,
        settings.compiler_environment(),
        sorted(compile_options(program.plan).items()),
        sorted(donate),
    )
    return hashlib.blake2b(repr(parts).encode(), digest_size=32).hexdigest()


class Executables:
    """Those of this process, the most recently used last, over those on disk."""

    def __init__(self, disk: DiskCache | None) -> None:
        self.disk = disk
        self._memory: OrderedDict[str, Executable] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, program: Program, donate: tuple[str, ...] = ()) -> Executable:
        """The program's executable. Raises TargetError without a device of its target."""
        target = client(program.target)
        key = executable_key(program, donate, target)
        started = time.perf_counter()
        with self._lock:
            found = self._memory.get(key)
            if found is not None:
                self._memory.move_to_end(key)
                return Executable(key, found.loaded, target, "memory", time.perf_counter() - started)
        origin: Origin = "disk"
        loaded = self._from_disk(key, target)
        if loaded is None:
            origin, loaded = "compiled", _compile(program, donate, target)
            self._to_disk(key, loaded)
        executable = Executable(key, loaded, target, origin, time.perf_counter() - started)
        with self._lock:
            self._memory[key] = executable
            while len(self._memory) > _IN_MEMORY:
                self._memory.popitem(last=False)
        return executable

    def _from_disk(self, key: str, target: Client) -> pjrt_seam.Loaded | None:
        payload = self.disk.load(key) if self.disk is not None else None
        if self.disk is None or payload is None:
            return None
        try:
            return pjrt_seam.load(target.handle, payload, [target.device])
        except pjrt_seam.RuntimeFault as error:  # ours and whole, but this PJRT client can't use it
            self.disk.refuse(key, f"the PJRT client refused an entry: {error}")
            return None

    def _to_disk(self, key: str, loaded: pjrt_seam.Loaded) -> None:
        if self.disk is None:
            return
        try:
            payload = loaded.serialize()
        except pjrt_seam.RuntimeFault as error:  # a plug-in without serialization
            self.disk.trouble = f"this platform's programs can't be kept: {error}"
            return
        self.disk.store(key, payload)


def _compile(program: Program, donate: tuple[str, ...], target: Client) -> pjrt_seam.Loaded:
    lowered = program.lower(donate, target.device)
    return pjrt_seam.loaded(lowered.compile(compiler_options=compile_options(program.plan)))

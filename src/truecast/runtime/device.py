"""Runs the graphs of the `pjrt` device: what capture.device.tape.Executor asks for.

Buffers are device arrays that the device owns; a graph's donated inputs give theirs up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from truecast import dtypes
from truecast.errors import UnsupportedError
from truecast.graph import Graph
from truecast.lowering.calling import of_graph
from truecast.lowering.program import Program
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import resolve
from truecast.numerics.scope import in_force, policy
from truecast.runtime import pjrt_seam
from truecast.runtime.backend import runtime
from truecast.runtime.client import Client, client
from truecast.runtime.transfer import Transfers, to_device, to_torch


@dataclass(frozen=True)
class Prepared:
    """scalar_dtypes: of the inputs that are Python numbers. origin: "compiled", "disk" or "memory"."""

    loaded: pjrt_seam.Loaded
    scalar_dtypes: tuple[torch.dtype, ...]
    origin: str


class DeviceExecutor:
    def __init__(self, target: str) -> None:
        self.target = target
        self.transfers = Transfers()

    @property
    def client(self) -> Client:
        return client(self.target)

    token = staticmethod(in_force)  # asked before every operation

    def policy(self) -> Numerics:
        return policy()

    def looks_at_places(self, policy: Numerics) -> bool:
        return any(rule.module or rule.source for rule in policy.rules)

    def storage(self, policy: Numerics) -> Any:
        return policy.storage

    def on_mismatch(self, policy: Numerics) -> str:
        return policy.on_mismatch

    def prepare(self, graph: Graph, donate: tuple[str, ...], policy: Numerics) -> Prepared:
        """The graph compiled under a policy."""
        try:
            executable = runtime().executables.get(self._program(graph, policy), donate)
        except pjrt_seam.RuntimeFault as fault:
            raise _translated(fault) from fault
        scalars = tuple(dtypes.torch_dtype(entry.value.dtype) for entry in graph.inputs if entry.kind == "scalar")
        return Prepared(executable.loaded, scalars, executable.origin)

    def run(self, prepared: Prepared, buffers: list[Any], scalars: list[Any], words: list[list[int]]) -> list[Any]:
        """Starts the program; it may return before the results are there."""
        arrays = list(buffers)
        small: dict[tuple[torch.dtype, str], Any] = {}  # an optimizer has the same few for each of its parameters
        for number, dtype in zip(scalars, prepared.scalar_dtypes, strict=True):
            key = dtype, repr(number)  # tells 0.0 from -0.0
            if key not in small:
                small[key] = self._small(torch.full((), number, dtype=dtype, device="cpu"))
            arrays.append(small[key])
        if words:
            arrays.append(self._small(torch.tensor(words, dtype=torch.int64, device="cpu").to(torch.uint32)))
        try:
            return list(prepared.loaded.execute(arrays))
        except (pjrt_seam.RuntimeFault, ValueError) as fault:
            raise _translated(fault) from fault

    def supports(self, graph: Graph, policy: Numerics) -> bool:
        """Whether every node of the graph can be lowered, in the form that it has there."""
        try:
            self._program(graph, policy).check()
        except UnsupportedError:
            return False
        return True

    def upload(self, tensor: torch.Tensor, policy: Numerics) -> Any:
        """A copy of a dense CPU tensor on the device."""
        held = dtypes.of(tensor.dtype)
        stored = policy.storage_map().get(held.name)
        return to_device(tensor.clone(), dtypes.of(stored) if stored else held, self.client, self.transfers)

    def download(self, buffer: Any, dtype: torch.dtype) -> torch.Tensor:
        """A CPU tensor with the buffer's contents, which is nobody else's; waits for them."""
        self.wait(buffer)
        return to_torch(buffer, dtypes.of(dtype), self.client, self.transfers).clone()

    def wait(self, buffer: Any) -> None:
        try:
            buffer.block_until_ready()
        except pjrt_seam.RuntimeFault as fault:
            raise _translated(fault) from fault

    def _program(self, graph: Graph, policy: Numerics) -> Program:
        return Program(graph, resolve(graph, policy), self.target, runtime(), of_graph(graph), seed_per_draw=True)

    def _small(self, tensor: torch.Tensor) -> Any:
        return to_device(tensor, dtypes.of(tensor.dtype), self.client, self.transfers)


def _translated(fault: Exception) -> Exception:
    """PJRT's error as PyTorch's: out of memory is torch.OutOfMemoryError, the rest RuntimeError."""
    text = str(fault)
    if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
        return torch.OutOfMemoryError(f"pjrt out of memory: {text}")
    return RuntimeError(f"pjrt: {text}")

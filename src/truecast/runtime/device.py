"""Runs the graphs of the `pjrt` device: what capture.device.tape.Executor asks for.

Buffers are device arrays that the device owns; a graph's donated inputs give theirs up.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch

from truecast import dtypes
from truecast.errors import UnsupportedError
from truecast.graph import Graph
from truecast.lowering.calling import of_graph
from truecast.lowering.program import Program
from truecast.numerics.plan import resolve
from truecast.numerics.scope import policy
from truecast.runtime.backend import runtime
from truecast.runtime.client import Client, client
from truecast.runtime.transfer import Transfers, to_device, to_torch


@dataclass(frozen=True)
class Prepared:
    """execute: arrays to arrays. scalar_dtypes: of the inputs that are Python numbers. seeded: it draws random bits."""

    execute: Any
    scalar_dtypes: tuple[torch.dtype, ...]
    seeded: bool


class DeviceExecutor:
    def __init__(self, target: str) -> None:
        self.target = target
        self.transfers = Transfers()

    @property
    def client(self) -> Client:
        return client(self.target)

    def policy(self) -> Hashable:
        return policy()

    def prepare(self, graph: Graph, donate: tuple[str, ...]) -> Prepared:
        """The graph compiled under the policy in force."""
        program = Program(graph, resolve(graph, policy()), self.target, runtime(), of_graph(graph))
        executable = runtime().executables.get(program, donate)
        scalars = tuple(dtypes.torch_dtype(entry.value.dtype) for entry in graph.inputs if entry.kind == "scalar")
        return Prepared(executable.loaded.execute, scalars, program.is_seeded)

    def run(self, prepared: Prepared, buffers: list[Any], scalars: list[Any]) -> list[Any]:
        """Starts the program; it may return before the results are there."""
        arrays = list(buffers)
        for number, dtype in zip(scalars, prepared.scalar_dtypes, strict=True):
            arrays.append(self.upload(torch.full((), number, dtype=dtype)))
        if prepared.seeded:
            words = torch.empty(2, dtype=torch.int64).random_(0, 1 << 32).to(torch.uint32)
            arrays.append(self.upload(words))
        return list(prepared.execute(arrays))

    def supports(self, graph: Graph) -> bool:
        """Whether every node of the graph can be lowered, in the form that it has there."""
        try:
            Program(graph, resolve(graph, policy()), self.target, runtime(), of_graph(graph)).lower()
        except UnsupportedError:
            return False
        return True

    def upload(self, tensor: torch.Tensor) -> Any:
        """A copy of a dense CPU tensor on the device."""
        held = dtypes.of(tensor.dtype)
        stored = policy().storage_map().get(held.name)
        return to_device(tensor.clone(), dtypes.of(stored) if stored else held, self.client, self.transfers)

    def download(self, buffer: Any, dtype: torch.dtype) -> torch.Tensor:
        """A CPU tensor with the buffer's contents, which is nobody else's; waits for them."""
        buffer.block_until_ready()
        return to_torch(buffer, dtypes.of(dtype), self.client, self.transfers).clone()

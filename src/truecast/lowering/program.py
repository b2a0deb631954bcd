"""Graph + Plan lowered to StableHLO, each instruction with a way back to its node and source line.

A Program is plain data plus what jax makes of it when somebody asks. It may not import the runtime: what
compiles, runs and saves it is the `backend` that `api` puts in.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Protocol

import jax
from jax import export

from truecast import dtypes
from truecast.dtypes import DType
from truecast.graph import Graph, Node, Value
from truecast.lowering import emit
from truecast.lowering import rules as _rules  # noqa: F401  (registers every rule)
from truecast.lowering.calling import Calling
from truecast.lowering.fingerprint import fingerprint
from truecast.lowering.instructions import Instruction, instructions
from truecast.numerics.plan import Plan
from truecast.ops.operands import draws_random_bits

# The kinds of device a program can be lowered for: jax's platform names, which PJRT plug-ins register.
TARGETS = ("cpu", "cuda", "tpu", "neuron")


class Backend(Protocol):
    """What a Program needs of the runtime."""

    def compile(self, program: Program, donate: tuple[str, ...]) -> Any: ...
    def optimized_hlo(self, program: Program) -> str: ...
    def save(self, program: Program, path: str | PathLike[str]) -> None: ...


@dataclass(frozen=True)
class Saved:
    """What a saved program brings along instead of being lowered here: it runs as it was saved."""

    fingerprint: str
    stablehlo: str
    exported: export.Exported


@dataclass(frozen=True)
class Program:
    """A lowered program.

    calling: how it is called, and the tensors it owns. saved: None for a program that is lowered here.
    seed_per_draw: each node that draws has two random words of its own, drawn when the program asked for it.
    """

    graph: Graph
    plan: Plan
    target: str
    backend: Backend = field(repr=False, compare=False)
    calling: Calling = field(repr=False, compare=False)
    saved: Saved | None = field(default=None, repr=False, compare=False)
    seed_per_draw: bool = False

    def __repr__(self) -> str:
        numerics, count = self.plan.numerics.name, len(self.graph.nodes)
        return f"<Program {self.graph.name!r} for {self.target} under {numerics}: {count} nodes>"

    @functools.cached_property
    def fingerprint(self) -> str:
        """What names this program in caches and files (law N9)."""
        return fingerprint(self.plan, self.target, self.seed_per_draw) if self.saved is None else self.saved.fingerprint

    @functools.cached_property
    def stablehlo(self) -> str:
        """The StableHLO, without locations."""
        return self.lower().as_text() if self.saved is None else self.saved.stablehlo

    @functools.cached_property
    def stablehlo_with_locations(self) -> str:
        """The StableHLO, in which each instruction's `loc` names its node (see `node_of`)."""
        if self.saved is not None:
            return str(self.saved.exported.mlir_module())
        return self.lower().as_text(debug_info=True)

    @functools.cached_property
    def optimized_hlo(self) -> str:
        """The HLO after the target's compiler is done with it. Raises TargetError without such a device."""
        return self.backend.optimized_hlo(self)

    def compile(self, donate: tuple[str, ...] = ()) -> Any:
        """A callable that takes what the program took and returns what it returned.

        donate: names of graph inputs whose device buffers the call may overwrite.
        Raises TargetError without a device of the program's target.
        """
        return self.backend.compile(self, donate)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the program, its Graph and its Plan to one file, or leaves the file as it was."""
        self.backend.save(self, path)

    def node_of(self, op_name: str) -> Node | None:
        """The node that an instruction computes, from its `op_name` (HLO) or `loc` (StableHLO); None if it has none."""
        for part in op_name.split("/"):
            node = self._scopes.get(part)
            if node is not None:
                return node
        return None

    @functools.cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """Every StableHLO instruction, in order, with the nodes it computes."""
        return instructions(self.lower().compiler_ir("stablehlo"), self.node_of)

    @functools.cached_property
    def _scopes(self) -> dict[str, Node]:
        return {emit.scope(node): node for node in self.graph.nodes}

    # What the runtime lowers with.

    @functools.cached_property
    def storage(self) -> dict[DType, DType]:
        """The dtypes that the device holds otherwise than the program says (law N11)."""
        return {dtypes.of(a): dtypes.of(b) for a, b in self.plan.numerics.storage}

    def held(self, value: Value) -> DType:
        """The dtype in which the device holds `value`; a Python number comes as it is (law N6)."""
        return value.dtype if value.scalar else self.storage.get(value.dtype, value.dtype)

    @property
    def is_seeded(self) -> bool:
        """Whether the program takes random words behind its inputs: two, or two for each node that draws (law N8)."""
        return emit.needs_seed(self.graph)

    def lower(self, donate: tuple[str, ...] = (), device: jax.Device | None = None) -> jax.stages.Lowered:
        """The program as jax lowers it for the target; every argument is kept, also one that nothing reads.

        device: the one it will be compiled for; None where it is only looked at.
        """
        with jax.enable_x64(True):
            return self._traced(donate, device).lower(lowering_platforms=(self.target,))

    def check(self) -> None:
        """Raises UnsupportedError if a node has a form that no rule covers: tracing finds that out, and is a third of
        the cost of `lower`."""
        with jax.enable_x64(True):
            self._traced((), None)

    def to_exported(self) -> export.Exported:
        """The program in jax.export's versioned form."""
        if self.saved is not None:
            return self.saved.exported
        with jax.enable_x64(True):
            return export.export(self._jitted(()), platforms=[self.target])(*self._specifications())

    def _traced(self, donate: tuple[str, ...], device: jax.Device | None) -> Any:
        return self._jitted(donate).trace(*self._specifications(device))

    def _jitted(self, donate: tuple[str, ...]) -> Any:
        function = emit.function_of(self.plan, self.target) if self.saved is None else self.saved.exported.call
        positions = [i for i, entry in enumerate(self.graph.inputs) if entry.value.name in donate]
        return jax.jit(function, keep_unused=True, donate_argnums=tuple(positions))

    def _specifications(self, device: jax.Device | None = None) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Shape and held dtype of each argument of the lowered function, under enable_x64."""
        sharding = None if device is None else jax.sharding.SingleDeviceSharding(device)
        arguments = [(entry.value.shape, self.held(entry.value)) for entry in self.graph.inputs]
        if self.is_seeded:
            draws = sum(map(draws_random_bits, self.graph.nodes))
            arguments.append(((draws, 2) if self.seed_per_draw else (2,), dtypes.uint32))
        return tuple(
            jax.ShapeDtypeStruct(shape, dtypes.numpy_dtype(dtype), sharding=sharding) for shape, dtype in arguments
        )

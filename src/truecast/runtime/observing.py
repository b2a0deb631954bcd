"""Runs a Plan section by section and hands out intermediate values, holding no more than a section's at a time.

Between sections it keeps what later ones read; a parameter is converted to what the device holds when a section reads
it, and let go after. Sections that differ in names alone (the layers of a model) share one executable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
import torch

from truecast import dtypes
from truecast.dtypes import DType
from truecast.graph import Value
from truecast.lowering.fingerprint import fingerprint
from truecast.lowering.observed import NotInThisDType, Values, draw_keys, function_of
from truecast.lowering.sections import Section, canonical, sections
from truecast.numerics.plan import Plan
from truecast.ops.operands import draws_random_bits
from truecast.runtime.client import client
from truecast.runtime.executable import compile_options
from truecast.runtime.transfer import Transfers, to_device

_Key: TypeAlias = tuple[Any, ...]


class Observer:
    """One run of a Plan on the CPU.

    stretches: where the sections are cut. observed: names of values to hand out. as_declared: decisions for nodes that
    the Plan's storage map does not apply to, by name, and why; nodes whose rule can't compute in the mapped dtype join
    them as they are met, with the decision that `fallback` has for them. compiled: executables that runs of one Graph
    share, where their Plans decide alike.
    """

    def __init__(
        self,
        plan: Plan,
        stretches: Sequence[range],
        observed: frozenset[str],
        as_declared: Mapping[str, str] | None = None,
        fallback: Plan | None = None,
        compiled: dict[_Key, Any] | None = None,
    ) -> None:
        self.as_declared: dict[str, str] = {}
        self._plan, self._fallback = plan, fallback
        self._stretches, self._observed = tuple(stretches), observed
        self._storage: dict[DType, DType] = {dtypes.of(a): dtypes.of(b) for a, b in plan.numerics.storage}
        self._compiled: dict[_Key, Any] = {} if compiled is None else compiled
        self._inputs = {entry.value.name: entry.value for entry in plan.graph.inputs}
        self._sections: tuple[Section, ...] = ()
        self._declare(as_declared or {})

    def __len__(self) -> int:
        return len(self._stretches)

    @property
    def compilations(self) -> int:
        """How many programs were compiled."""
        return len(self._compiled)

    def start(self, tensors: Mapping[str, Any], seed: Sequence[int]) -> None:
        """Begins a run. tensors: the contents of the graph's inputs, by name: torch tensors, or this run's own arrays
        from `outputs`. seed: two words of 32 bits (law N8)."""
        self._tensors = tensors
        self._held = Values({}, {})
        self._drawn = 0
        draws = sum(map(draws_random_bits, self._plan.graph.nodes))
        self._keys = draw_keys(jax.numpy.asarray(seed, jax.numpy.uint32), draws) if draws else None

    def run(self, number: int) -> dict[str, np.ndarray[Any, Any]]:
        """Runs section `number`, which must be the next one, and returns its observed values by name."""
        while True:
            section = self._sections[number]
            try:
                return self._run(number, section)
            except NotInThisDType as error:
                name = next(n for n, new in canonical(section)[1].items() if new == error.node.name)
                self._declare({**self.as_declared, name: error.why})

    def outputs(self) -> list[Any]:
        """The graph's outputs as arrays, after the last section; None where the program has none."""
        values = (o.value for o in self._plan.graph.outputs)
        return [None if v is None else self._array(v) for v in values]

    def _declare(self, names: Mapping[str, str]) -> None:
        self.as_declared = dict(names)
        plan = self._plan
        if self._fallback is not None and names:
            chosen = tuple(
                declared if node.name in names else own
                for (node, own), declared in zip(plan.pairs(), self._fallback.decisions, strict=True)
            )
            plan = Plan(plan.graph, plan.numerics, chosen)
        self._sections = sections(plan, self._stretches, self._observed, frozenset(names))

    def _run(self, number: int, section: Section) -> dict[str, np.ndarray[Any, Any]]:
        general, names = canonical(section)
        read = [entry.value for entry in section.plan.graph.inputs]
        given = Values(
            {names[v.name]: self._array(v) for v in read if v.name in self._inputs or v.name in self._held.rounded},
            {names[n]: self._held.wide[n] for n in section.wide_in if n in self._held.wide},
        )
        draws = sum(map(draws_random_bits, section.plan.graph.nodes))
        keys = None if self._keys is None else self._keys[self._drawn : self._drawn + draws]
        results, observed = self._executable(general, given, keys)(given, keys)
        self._drawn += draws
        old = {new: name for name, new in names.items()}
        self._held.rounded.update((old[n], array) for n, array in results.rounded.items())
        self._held.wide.update((old[n], array) for n, array in results.wide.items())
        self._forget(number)
        return {old[name]: np.asarray(array) for name, array in observed.items()}

    def _executable(self, section: Section, given: Values, keys: Any) -> Any:
        shapes = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), (given, keys))
        options = compile_options(section.plan)
        key = (
            fingerprint(section.plan, "cpu"),
            str(options),
            *(section.wide_in, section.wide_out, section.observed, section.as_declared),
            str(shapes),
        )
        if key not in self._compiled:
            with jax.enable_x64(True):
                lowered = jax.jit(function_of(section)).lower(*shapes)
                self._compiled[key] = lowered.compile(compiler_options=options)
        return self._compiled[key]

    def _array(self, value: Value) -> Any:
        if value.name not in self._inputs:
            return self._held.rounded[value.name]
        tensor = self._tensors[value.name]
        if not isinstance(tensor, torch.Tensor):
            return tensor
        held = self._storage.get(value.dtype, value.dtype)
        return to_device(tensor.detach(), held, client("cpu"), Transfers())

    def _forget(self, number: int) -> None:
        """Drops what no section after `number` reads."""
        rounded = {o.value.name for o in self._plan.graph.outputs if o.value is not None}
        wide: set[str] = set()
        for section in self._sections[number + 1 :]:
            rounded.update(entry.value.name for entry in section.plan.graph.inputs)
            wide.update(section.wide_in)
        for kept, needed in ((self._held.rounded, rounded), (self._held.wide, wide)):
            for name in [name for name in kept if name not in needed]:
                del kept[name]

"""A section of a Plan as a function that hands out its intermediate values beside its results.

Observing changes nothing that is computed: inside an elementwise region (law N3) a value is handed out as it is
there, before rounding, and does not become an exit of the region.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
from jax import lax

from truecast import dtypes
from truecast.errors import TruecastError, UnsupportedError
from truecast.graph import Node
from truecast.lowering.context import Array
from truecast.lowering.emit import Engine
from truecast.lowering.sections import Section
from truecast.numerics.plan import Decision

Arrays = dict[str, Array]


class Values(NamedTuple):
    """rounded: as the device holds them; wide: as they are inside their region."""

    rounded: Arrays
    wide: Arrays


class NotInThisDType(Exception):
    """A node whose rule can't compute in the dtype that a storage map asks for."""

    def __init__(self, node: Node, why: str) -> None:
        self.node, self.why = node, why
        super().__init__(f"{node.op}: {why}")


def function_of(section: Section) -> Callable[[Values, Array | None], tuple[Values, Arrays]]:
    """A function for jax.jit: from what the section reads and its nodes' random keys (uint32[n, 2], a row for each
    node that draws; None for none) to what later sections read, and the observed values by name."""
    region_of = {v.name: d.region for node, d in section.plan.pairs() for v in node.inputs if v.name in section.wide_in}
    graph = section.plan.graph

    def run(given: Values, keys: Array | None) -> tuple[Values, Arrays]:
        engine = _Observing(section, keys)
        engine.rounded.update(given.rounded)
        engine.wide.update((name, (region_of[name], array)) for name, array in given.wide.items())
        for node, decision in section.plan.pairs():
            engine.run(node, decision)
        rounded = {o.value.name: engine.rounded[o.value.name] for o in graph.outputs if o.value is not None}
        wide = {name: engine.wide[name][1] for name in section.wide_out if name in engine.wide}
        return Values(rounded, wide), {name: engine.seen(name) for name in section.observed}

    return run


class _Observing(Engine):
    def __init__(self, section: Section, keys: Array | None) -> None:
        super().__init__(section.plan, keys)
        self._as_declared = section.as_declared

    def seen(self, name: str) -> Array:
        """A value as others read it; as its own region does, if nobody else reads it."""
        return self.rounded[name] if name in self.rounded else self.wide[name][1]

    def run(self, node: Node, decision: Decision) -> None:
        if node.name in self._as_declared:
            self._run_as_declared(node, decision)
            return
        try:
            super().run(node, decision)
        except (UnsupportedError, TypeError, ValueError, NotImplementedError) as error:
            if not self.storage:
                raise
            reason = error.what if isinstance(error, TruecastError) else str(error).splitlines()[0]
            raise NotInThisDType(node, reason) from error

    def _run_as_declared(self, node: Node, decision: Decision) -> None:
        """Runs a node on the dtypes that the program says; what it reads is converted, and what it returns."""
        kept = {value.name: self.rounded[value.name] for value in node.inputs}
        storage, self.storage = self.storage, {}
        for value in node.inputs:
            declared = dtypes.numpy_dtype(value.dtype)
            self.rounded[value.name] = lax.convert_element_type(kept[value.name], declared)
        super().run(node, decision)
        self.rounded.update(kept)
        self.storage = storage
        for result in node.outputs:
            if result is not None:
                held = dtypes.numpy_dtype(storage.get(result.dtype, result.dtype))
                self.rounded[result.name] = lax.convert_element_type(self.rounded[result.name], held)


def draw_keys(seed: Array, count: int) -> Array:
    """uint32[count, 2]: the keys of the nodes that draw, in order, as a program with this seed has them (law N8)."""
    key = jax.random.wrap_key_data(seed, impl="threefry2x32")
    folded = [jax.random.key_data(jax.random.fold_in(key, number)) for number in range(1, count + 1)]
    return jax.numpy.stack(folded)

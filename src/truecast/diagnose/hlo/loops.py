"""Sums that a loop carries in 16 bits: a running total whose every step rounds.

A value's way through a loop's body is followed through what hands it on (converts, reshapes, tuples, calls and fusions)
and through additions. Where element i of the body's result comes from element i of its parameter through an addition,
and is 16 bits wide, or is rounded to 16 bits on the way, the loop accumulates in 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from truecast.diagnose.hlo.module import Flow, Loop, Module
from truecast.dtypes import DType


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a value comes from: parameter `index`, or its element `element`; whether something was added on the way,
    and the 16-bit dtype that it was rounded to."""

    index: int
    element: int = -1
    added: bool = False
    narrow: DType | None = None


# A value's sources; a tuple's, element by element.
_State = frozenset[_Source] | tuple["_State", ...]
_NOTHING: frozenset[_Source] = frozenset()


def narrow_sums(module: Module) -> Iterator[tuple[Loop, int, DType]]:
    """Each loop with the element of its state that is a sum in 16 bits, and the dtype."""
    ways = _Ways(module)
    for loop in module.loops:
        results = ways.of(loop.body)
        for position, carried in enumerate(loop.carried):
            if position >= len(results) or not carried.dtype.is_inexact:
                continue
            for source in _flat(results[position]):
                own = position in (source.index, source.element) and (source.element in (-1, position))
                narrow = carried.dtype if carried.dtype.is_narrow else source.narrow
                if own and source.added and narrow is not None:
                    yield loop, position, narrow
                    break


class _Ways:
    """What the results of each computation come from, worked out once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.known: dict[str, tuple[_State, ...]] = {}

    def of(self, name: str) -> tuple[_State, ...]:
        if name in self.known:
            return self.known[name]
        self.known[name] = ()  # a computation that calls itself carries nothing
        computation = self.module.computations.get(name)
        if computation is None:
            return ()
        states: dict[str, _State] = {}
        for value, flow in computation.flow.items():
            states[value] = self.step(flow, states)
        results = tuple(_look_up(states, result) for result in computation.results)
        if len(results) == 1 and isinstance(results[0], tuple):
            results = results[0]
        self.known[name] = results
        return results

    def step(self, flow: Flow, states: dict[str, _State]) -> _State:
        if flow.kind == "parameter":
            return frozenset((_Source(flow.index),))
        operands = [_look_up(states, operand) for operand in flow.operands]
        if flow.kind == "tuple":
            return tuple(operands)
        if flow.kind == "element":
            return _element(operands[0] if operands else _NOTHING, flow.index)
        if flow.kind == "call":
            results = tuple(_through(result, operands) for result in self.of(flow.callee))
            return results[0] if len(results) == 1 else results
        sources = (source for operand in operands for source in _flat(operand))
        return frozenset(
            _Source(s.index, s.element, s.added or flow.kind == "sum", flow.narrow or s.narrow) for s in sources
        )


def _look_up(states: dict[str, _State], name: str) -> _State:
    """The state of `a`, or of MLIR's `%a#1`."""
    base, _, index = name.partition("#")
    return _element(states.get(base, _NOTHING), int(index)) if index else states.get(name, _NOTHING)


def _element(state: _State, index: int) -> _State:
    if isinstance(state, tuple):
        return state[index] if index < len(state) else _NOTHING
    return frozenset(_Source(s.index, index, s.added, s.narrow) for s in state if s.element == -1)


def _flat(state: _State) -> Iterator[_Source]:
    if isinstance(state, tuple):
        for part in state:
            yield from _flat(part)
    else:
        yield from state


def _through(result: _State, operands: list[_State]) -> _State:
    """A callee's result in terms of the caller's values."""
    if isinstance(result, tuple):
        return tuple(_through(part, operands) for part in result)
    found: set[_Source] = set()
    for source in result:
        if source.index >= len(operands):
            continue
        given = operands[source.index]
        if source.element >= 0:
            given = _element(given, source.element)
        for outer in _flat(given):
            narrow = source.narrow or outer.narrow
            found.add(_Source(outer.index, outer.element, outer.added or source.added, narrow))
    return frozenset(found)

"""The pending operations of the device, and how they run: as one Graph, with what is already known of it reused.

A run keeps the values that some live tensor's memory holds, and computes only what those need. Its key is the
sequence of Specs and how they are wired; a Python number is not part of it. The first program of a key has the
numbers baked in; a number that has another value later becomes an input of the next one, so that a learning
rate costs one more compile, once (law N6).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from truecast import dtypes
from truecast.capture.aliasing import Alias
from truecast.capture.device.values import Lazy, Record, ScalarSlot, Slot
from truecast.graph import Graph, Input, Node, Output, Token, Value

_LARGEST = 16_384  # pending operations; more are run, so that a loop that never looks at a value stays bounded


class Executor(Protocol):
    """What runs Graphs: composed by api.py, since capture knows neither lowering nor PJRT."""

    def prepare(self, graph: Graph, donate: tuple[str, ...]) -> Any:
        """An executable for `graph` under the numerics in force; inputs named in `donate` give up their buffers."""

    def run(self, executable: Any, buffers: list[Any], scalars: list[Any]) -> list[Any]:
        """The output buffers; `scalars` are the values of the inputs of kind "scalar", which come last."""

    def policy(self) -> Hashable:
        """What a program's key holds besides its operations: the numerics in force."""

    def supports(self, graph: Graph) -> bool:
        """Whether every node of `graph` can be lowered."""

    def upload(self, tensor: torch.Tensor) -> Any:
        """A buffer with a copy of a dense CPU tensor's contents."""

    def download(self, buffer: Any, dtype: torch.dtype) -> torch.Tensor:
        """A CPU tensor with a copy of a buffer's contents."""


class Root(Alias):
    """The memory behind a tensor and its views; weakly known to the tape, which asks what it still has to keep."""

    __slots__ = ("__weakref__",)

    def __init__(self, value: Any, layout: tuple[tuple[int, ...], int] | None) -> None:
        self.value = value
        self.parent = self.step = None
        self.version = 0
        self.layout = layout

    root = property(lambda self: self)  # type: ignore[assignment]  # a root that referred to itself would outlive its tensors


@dataclass
class Counters:
    """What the device has done: tc.metrics() shows it."""

    operations: int = 0
    runs: int = 0
    programs: int = 0
    program_hits: int = 0
    uploads: int = 0
    downloads: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    fallbacks: dict[str, int] = field(default_factory=dict)


@dataclass
class _Variant:
    """One compiled program of a key. baked: the numbers it was built with; lifted: positions that are inputs."""

    baked: list[Any]
    lifted: frozenset[int]
    executable: Any


class Tape:
    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.counters = Counters()
        self.lock = threading.RLock()
        self.eager = False  # debug: run each operation at once
        self.history: list[str] = []  # why each program was made, newest last
        self._records: list[Record] = []
        self._roots: list[weakref.ref[Root]] = []
        self._programs: dict[Hashable, list[_Variant]] = {}

    def root(self, value: Lazy, layout: tuple[tuple[int, ...], int] | None = None) -> Root:
        """New memory that holds `value`."""
        root = Root(value, layout)
        self._roots.append(weakref.ref(root))
        return root

    def append(self, record: Record) -> None:
        self._records.append(record)
        if self.eager or len(self._records) >= _LARGEST:
            self._pending_root_of(record)

    def _pending_root_of(self, record: Record) -> None:
        """Runs everything, `record`'s own results included, though no tensor holds them yet."""
        kept = [self.root(lazy) for lazy in record.outputs if lazy is not None]
        self.run()
        del kept

    def run(self) -> None:
        """Computes what live tensors hold. Pending operations that nothing needs are dropped."""
        with self.lock:
            self._run()

    def _run(self) -> None:
        records, self._records = self._records, []
        roots = [root for ref in self._roots if (root := ref()) is not None]
        self._roots = [weakref.ref(root) for root in roots]
        if not records:
            return
        kept = list({id(r.value): r.value for r in roots if r.value.record is not None}.values())
        try:
            if kept:
                self._compute(_live(records, kept), kept, {id(r.value) for r in roots})
        finally:
            for record in records:
                for lazy in record.outputs:
                    if lazy is not None:
                        lazy.record, lazy.number, lazy.lost = None, -1, lazy.buffer is None
                record.outputs = record.operands = ()

    def _compute(self, records: list[Record], kept: list[Lazy], held: set[int]) -> None:
        key, inputs = _number(records, kept)
        scalars = [number for record in records for number in record.scalars]
        donated = tuple(i for i, lazy in enumerate(inputs) if id(lazy) not in held)
        variant = self._variant((self.executor.policy(), donated, tuple(key)), records, inputs, kept, scalars, donated)
        buffers = [lazy.buffer for lazy in inputs]
        for index in donated:
            inputs[index].buffer, inputs[index].lost = None, True
        for lazy in inputs:
            lazy.number = -1
        results = self.executor.run(variant.executable, buffers, [scalars[i] for i in sorted(variant.lifted)])
        for lazy, buffer in zip(kept, results, strict=True):
            lazy.buffer = buffer
        self.counters.runs += 1

    def _variant(
        self,
        key: Hashable,
        records: list[Record],
        inputs: list[Lazy],
        kept: list[Lazy],
        scalars: list[Any],
        donated: tuple[int, ...],
    ) -> _Variant:
        variants = self._programs.setdefault(key, [])
        for variant in reversed(variants):
            if all(
                i in variant.lifted or _same(a, b) for i, (a, b) in enumerate(zip(variant.baked, scalars, strict=True))
            ):
                self.counters.program_hits += 1
                return variant
        lifted: frozenset[int] = frozenset()
        if variants:
            last = variants[-1]
            changed = frozenset(i for i, (a, b) in enumerate(zip(last.baked, scalars, strict=True)) if not _same(a, b))
            lifted = last.lifted | changed
            self.history.append(_number_change(records, last.baked, scalars, changed - last.lifted))
        else:
            self.history.append(f"new operations: {len(records)} of them, {len(inputs)} inputs, {len(kept)} results")
        graph = build_graph(records, inputs, kept, lifted)
        names = tuple(f"in{i}" for i in donated)
        variant = _Variant(scalars, lifted, self.executor.prepare(graph, names))
        variants.append(variant)
        self.counters.programs += 1
        return variant

    def pending_graph(self) -> Graph:
        """The Graph that `run` would run now."""
        with self.lock:
            roots = [root for ref in self._roots if (root := ref()) is not None]
            kept = list({id(r.value): r.value for r in roots if r.value.record is not None}.values())
            records = _live(self._records, kept)
            _, inputs = _number(records, kept)
            graph = build_graph(records, inputs, kept, frozenset())
            for lazy in inputs:
                lazy.number = -1
            for record in records:
                record.number = -1
            return graph


def _live(records: list[Record], kept: list[Lazy]) -> list[Record]:
    """The records that `kept` needs, in order. Marks them with number 0; the others keep -1."""
    for lazy in kept:
        assert lazy.record is not None
        lazy.record.number = 0
    for record in reversed(records):
        if record.number == 0:
            for operand in record.operands:
                if operand.record is not None:
                    operand.record.number = 0
    return [record for record in records if record.number == 0]


def _number(records: list[Record], kept: list[Lazy]) -> tuple[list[int], list[Lazy]]:
    """The key of a run and its inputs, each once. A negative number in the key is an input."""
    key: list[int] = []
    inputs: list[Lazy] = []
    count = 0
    for record in records:
        key.append(record.spec.number)
        for operand in record.operands:
            if operand.record is not None:
                key.append(operand.number)
                continue
            if operand.number < 0:
                operand.number = len(inputs)
                inputs.append(operand)
            key.append(-1 - operand.number)
        for lazy in record.outputs:
            if lazy is not None:
                lazy.number = count
                count += 1
    key.append(-len(inputs))
    key.extend(lazy.number for lazy in kept)
    return key, inputs


def build_graph(records: list[Record], inputs: list[Lazy], kept: list[Lazy], lifted: frozenset[int]) -> Graph:
    """The Graph of a run: inputs in0.., then lifted numbers k0.., one node a record, one output a kept value."""
    values: dict[int, Value] = {}
    entries: list[Input] = []
    for index, lazy in enumerate(inputs):
        value = Value(f"in{index}", dtypes.of(lazy.dtype), lazy.shape)
        values[id(lazy)] = value
        entries.append(Input(value))
    nodes: list[Node] = []
    position = 0
    for number, record in enumerate(records):
        numbers: list[Any] = []
        for scalar in record.scalars:
            if position in lifted:
                value = Value(f"k{position}", dtypes.of(type(scalar)), (), scalar=True)
                entries.append(Input(value, "scalar"))
                numbers.append(value)
            else:
                numbers.append(scalar)
            position += 1
        outputs: list[Value | None] = []
        for index, lazy in enumerate(record.outputs):
            if lazy is None:
                outputs.append(None)
                continue
            name = f"v{number}" if len(record.outputs) == 1 else f"v{number}_{index}"
            values[id(lazy)] = value = Value(name, dtypes.of(lazy.dtype), lazy.shape)
            outputs.append(value)
        operands = [values[id(lazy)] for lazy in record.operands]
        spec = record.spec
        args = tuple(_literal(a, operands, numbers) for a in spec.args)
        kwargs = tuple((name, _literal(a, operands, numbers)) for name, a in spec.kwargs)
        nodes.append(Node(spec.op, args, kwargs, tuple(outputs), record.position.site()))
    results = tuple(Output(values[id(lazy)]) for lazy in kept)
    return Graph("pjrt", tuple(entries), tuple(nodes), results)


def _literal(argument: Any, operands: list[Value], numbers: list[Any]) -> Any:
    if type(argument) is Slot:
        return operands[argument.index]
    if type(argument) is ScalarSlot:
        return numbers[argument.index]
    if isinstance(argument, tuple | list):
        return tuple(_literal(a, operands, numbers) for a in argument)
    if isinstance(argument, torch.dtype):
        return dtypes.of(argument)
    if isinstance(argument, torch.device | torch.layout | torch.memory_format):
        return Token(str(argument))
    return argument


def _same(a: Any, b: Any) -> bool:
    return a == b or (a != a and b != b)


def _number_change(records: list[Record], old: list[Any], new: list[Any], changed: frozenset[int]) -> str:
    position = 0
    shown: list[str] = []
    for record in records:
        for _ in record.scalars:
            if position in changed and len(shown) < 3:
                site = record.position.site()
                shown.append(f"{old[position]!r} became {new[position]!r} in {record.spec.op} at {site}")
            position += 1
    more = f" and {len(changed) - len(shown)} more" if len(changed) > len(shown) else ""
    return f"{len(changed)} Python numbers changed and are inputs from now on: {'; '.join(shown)}{more}"

"""The pending operations of the device, and how they run: as one Graph, with what is already known of it reused.

A run keeps the values that some live tensor's memory holds, and computes only what those need. Its key is the
sequence of Specs and how they are wired; a Python number is not part of it. The first program of a key has the
numbers baked in; a number that has another value later becomes an input of the next one, so that a learning
rate costs one more compile, once (law N6).

If a program can't be compiled or run, its operations run one by one: those that fail leave their error where
their values would be, for whoever reads them, and all others give their values.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import torch

from truecast.capture import torch_seam
from truecast.capture.aliasing import Alias
from truecast.capture.device import recompiles
from truecast.capture.device.lowered_graph import build_graph
from truecast.capture.device.values import Failure, Layout, Lazy, Record
from truecast.errors import UsageError
from truecast.graph import Graph

_LARGEST = 16_384  # pending operations; more are run, so that a loop that never looks at a value stays bounded

# Programs kept in memory; one that was dropped is found on disk. XLA:CPU maps the code of each kernel by itself, and
# Linux gives a process 65,530 maps: without them LLVM fails, and takes the process down.
_MOST_PROGRAMS = 1_024


class Executor(Protocol):
    """What runs Graphs: composed by `api`, since capture knows neither lowering nor PJRT."""

    def token(self) -> Any:
        """What tells the numerics in force on this thread from others, by identity; quick."""

    def policy(self) -> Hashable:
        """The numerics in force on this thread: what operations recorded now are to be computed under."""

    def looks_at_places(self, policy: Any) -> bool:
        """Whether the policy's rules depend on source lines or module paths."""

    def storage(self, policy: Any) -> Any:
        """How the policy holds dtypes on the device (law N11)."""

    def on_mismatch(self, policy: Any) -> str:
        """What the policy says about operands whose dtypes must agree and don't: "error" or "cast"."""

    def supports(self, graph: Graph, policy: Any) -> bool:
        """Whether every node of `graph` can be lowered."""

    def prepare(self, graph: Graph, donate: tuple[str, ...], policy: Any) -> Any:
        """An executable for `graph` under a policy; inputs named in `donate` give up their buffers."""

    def run(self, executable: Any, buffers: list[Any], scalars: list[Any], words: list[list[int]]) -> list[Any]:
        """The output buffers. scalars: the values of the inputs of kind "scalar", which come last. words: two random
        ones for each node that draws, in order."""

    def upload(self, tensor: torch.Tensor, policy: Any) -> Any:
        """A buffer with a copy of a dense CPU tensor's contents."""

    def download(self, buffer: Any, dtype: torch.dtype) -> torch.Tensor:
        """A CPU tensor with a copy of a buffer's contents."""

    def wait(self, buffer: Any) -> None:
        """Returns when the buffer has its contents."""


class Root(Alias[Lazy]):
    """The memory behind a tensor and its views; weakly known to the tape, which asks what it still has to keep."""

    __slots__ = ("__weakref__",)

    def __init__(self, value: Lazy, layout: Layout | None) -> None:
        self.value = value
        self.parent = self.step = self._root = None
        self.version = 0
        self.layout = layout


@dataclass
class Counters:
    """What the device has done. bytes are those of tensors that crossed between it and the CPU."""

    operations: int = 0
    runs: int = 0
    programs: int = 0
    compiles: int = 0
    program_hits: int = 0
    disk_hits: int = 0
    uploads: int = 0
    downloads: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    fallbacks: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Counters:
        """What they are now."""
        return replace(self, fallbacks=dict(self.fallbacks))

    def __str__(self) -> str:
        rows = [(f.name, getattr(self, f.name)) for f in fields(self) if f.name != "fallbacks"]
        rows += [(f"fallback {op}", count) for op, count in sorted(self.fallbacks.items())]
        return "\n".join(f"{name.replace('_', ' '):<32}{value:>12}" for name, value in rows)


@dataclass
class _Variant:
    """One compiled program of a key. baked: the numbers it was built with; lifted: positions that are inputs."""

    baked: list[Any]
    lifted: frozenset[int]
    executable: Any
    order: list[int]


class Tape:
    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.counters = Counters()
        self.lock = threading.RLock()
        self.eager = False  # debug: run each operation at once
        self.token: Any = object()  # of the numerics under which the pending operations were recorded
        self.policy: Any = None
        self.is_full = False
        self.on_places: Callable[[bool], None] = lambda looked_at: None
        self._places = False
        self.log = recompiles.Log()
        self._records: list[Record] = []
        self._roots: list[weakref.ref[Root]] = []
        self._programs: OrderedDict[Hashable, list[_Variant]] = OrderedDict()  # the most recently used last

    def root(self, value: Lazy, layout: Layout | None = None) -> Root:
        """New memory that holds `value`."""
        root = Root(value, layout)
        self._roots.append(weakref.ref(root))
        return root

    def append(self, record: Record) -> None:
        records = self._records
        records.append(record)
        if len(records) >= _LARGEST:
            self.is_full = True  # run before the next operation: values that this one still needs have no tensor yet
        if self.eager:
            # No tensor holds the record's own results yet.
            kept = [self.root(lazy) for lazy in record.outputs if lazy is not None]
            self.run()
            del kept

    def turn(self) -> None:
        """Before an operation is recorded: runs what is pending if it is too much, or belongs to other numerics.

        Autograd's own thread goes on under those of the thread that called backward().
        """
        if self.is_full:
            self._run()
        token = self.executor.token()
        if token is self.token or (torch_seam.current_autograd_node() is not None and self.policy is not None):
            return
        policy = self.executor.policy()
        if policy != self.policy:
            self._run()
            self._refuse_other_storage(policy)
            self.policy = policy
            self._places = self.executor.looks_at_places(policy)
            self.on_places(self._places)
        self.token = token

    def _refuse_other_storage(self, policy: Any) -> None:
        if self.policy is None or self.executor.storage(policy) == self.executor.storage(self.policy):
            return
        if any(root.value.buffer is not None for ref in self._roots if (root := ref()) is not None):
            raise UsageError(
                "the storage map of the numerics changed while tensors are on the device",
                why="they are held as the policy before said, and programs of the new one would read them wrongly",
                help="set the policy before the first tensor is made, or move the tensors to the CPU and back",
            )

    def upload(self, tensor: torch.Tensor) -> Any:
        """A buffer with a copy of a dense CPU tensor's contents."""
        with self.lock:
            self.turn()
            return self.executor.upload(tensor, self.policy)

    def run(self) -> list[Failure]:
        """Computes what live tensors hold, and returns what failed. Operations that nothing needs are dropped."""
        with self.lock:
            return self._run()

    def keep(self, lazy: Lazy) -> Any:
        """The buffer of a value that a tensor holds; runs what is pending. Raises what its computation raised."""
        with self.lock:
            if lazy.buffer is None:
                kept = self.root(lazy)
                self._run()
                del kept
            found = lazy.buffer
        if type(found) is Failure:
            raise found.error
        if found is None:
            raise RuntimeError("this tensor's contents were lost when the run that was to compute them was interrupted")
        return found

    def wait(self) -> None:
        """Returns when every value that has been started is there."""
        with self.lock:
            buffers = [root.value.buffer for ref in self._roots if (root := ref()) is not None]
        for buffer in buffers:
            if buffer is not None and type(buffer) is not Failure:
                self.executor.wait(buffer)

    def _run(self) -> list[Failure]:
        records, self._records = self._records, []
        self.is_full = False
        roots = [root for ref in self._roots if (root := ref()) is not None]
        self._roots = [weakref.ref(root) for root in roots]
        if not records:
            return []
        self.counters.operations += len(records)
        kept = list({id(r.value): r.value for r in roots if r.value.record is not None}.values())
        try:
            if not kept:
                return []
            live = _live(records, kept)
            held = {id(r.value) for r in roots}
            try:
                self._compute(live, kept, held)
                return []
            except Exception as error:
                return self._one_by_one(live, error)
        finally:
            for record in records:
                for lazy in record.outputs:
                    if lazy is not None:
                        lazy.record, lazy.number, lazy.lost = None, -1, lazy.buffer is None
                record.outputs = record.operands = ()

    def _one_by_one(self, records: list[Record], error: Exception) -> list[Failure]:
        """Runs each record by itself. Errors are kept where the values would be; `error` is the one of all together."""
        failures: list[Failure] = []
        for record in records:
            outputs = [lazy for lazy in record.outputs if lazy is not None]
            wrong = next((o.buffer for o in record.operands if type(o.buffer) is Failure), None)
            if wrong is None:
                for operand in record.operands:
                    operand.record, operand.number = None, -1
                try:
                    if len(records) == 1:
                        raise error
                    self._compute([record], outputs, {id(o) for o in record.operands})
                    continue
                except Exception as own:
                    own.add_note(f"in {record.spec.op} at {record.position.site()}")
                    wrong = Failure(own)
                    failures.append(wrong)
            for lazy in outputs:
                lazy.buffer = wrong
        return failures

    def _compute(self, records: list[Record], kept: list[Lazy], held: set[int]) -> None:
        key, inputs = _number(records, kept)
        donated: tuple[int, ...] = ()
        try:
            for lazy in inputs:
                if type(lazy.buffer) is Failure:
                    raise lazy.buffer.error
            scalars = [number for record in records for number in record.scalars]
            words = [record.words for record in records if record.words is not None]
            donated = tuple(i for i, lazy in enumerate(inputs) if id(lazy) not in held)
            places = tuple([record.position for record in records]) if self._places else None
            known = (self.policy, donated, tuple(key), places)
            variant = self._variant(known, records, inputs, kept, scalars, donated)
            buffers = [lazy.buffer for lazy in inputs]
            results = self.executor.run(variant.executable, buffers, [scalars[i] for i in variant.order], words)
        finally:
            for lazy in inputs:
                lazy.number = -1
        for index in donated:
            inputs[index].buffer, inputs[index].lost = None, True
        for lazy, buffer in zip(kept, results, strict=True):
            lazy.buffer = buffer
        self.counters.runs += 1

    def _variant(
        self,
        key: tuple[Any, ...],
        records: list[Record],
        inputs: list[Lazy],
        kept: list[Lazy],
        scalars: list[Any],
        donated: tuple[int, ...],
    ) -> _Variant:
        programs = self._programs
        variants = programs.setdefault(key, [])
        programs.move_to_end(key)
        while len(programs) > _MOST_PROGRAMS:
            programs.popitem(last=False)
        for variant in reversed(variants):
            lifted = variant.lifted
            if all(
                a is b or i in lifted or _same(a, b)
                for i, (a, b) in enumerate(zip(variant.baked, scalars, strict=True))
            ):
                self.counters.program_hits += 1
                return variant
        lifted = frozenset()
        if variants:
            last = variants[-1]
            changed = frozenset(i for i, (a, b) in enumerate(zip(last.baked, scalars, strict=True)) if not _same(a, b))
            lifted = last.lifted | changed
            self.log.numbers(records, last.baked, scalars, changed - last.lifted)
        else:
            self.log.program(records, inputs, kept, donated, key[0])
        graph = build_graph(records, inputs, kept, lifted)
        executable = self.executor.prepare(graph, _reusable(inputs, kept, donated), self.policy)
        variant = _Variant(scalars, lifted, executable, sorted(lifted))
        variants.append(variant)
        self.counters.programs += 1
        self.counters.compiles += executable.origin == "compiled"
        self.counters.disk_hits += executable.origin == "disk"
        return variant

    def pending_graph(self, wanted: Sequence[Lazy] = ()) -> Graph:
        """The Graph that `run` would run now, or what of it computes the values in `wanted`."""
        with self.lock:
            roots = [root for ref in self._roots if (root := ref()) is not None]
            values = wanted or [root.value for root in roots]
            kept = list({id(value): value for value in values if value.record is not None}.values())
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
    key.extend([lazy.number for lazy in kept])
    return key, inputs


def _reusable(inputs: list[Lazy], kept: list[Lazy], donated: tuple[int, ...]) -> tuple[str, ...]:
    """Those of the inputs given up whose memory a result can take: one of the same dtype and shape for each."""
    free = Counter([(lazy.dtype, lazy.shape) for lazy in kept])
    names: list[str] = []
    for index in donated:
        form = inputs[index].dtype, inputs[index].shape
        if free[form]:
            free[form] -= 1
            names.append(f"in{index}")
    return tuple(names)


def _same(a: Any, b: Any) -> bool:
    """Whether two numbers of one type are the same: nan is itself, 0.0 and -0.0 differ."""
    return (a == b and (a != 0 or repr(a) == repr(b))) or (a != a and b != b)

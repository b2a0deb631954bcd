"""A compiled program as a callable on torch tensors.

Everything that can be settled once is settled when it is made, so that a call with hundreds of arguments
costs a few microseconds each at most: which graph input each leaf is, the arrays that share the memory of
the program's own tensors, where each result goes.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import torch
from torch.utils import _pytree as pytree

from truecast import dtypes
from truecast.dtypes import DType
from truecast.errors import UsageError
from truecast.graph import Input
from truecast.lowering.calling import Calling
from truecast.lowering.program import Program
from truecast.runtime.executable import Executable
from truecast.runtime.transfer import Transfers, to_device, to_torch


class _Kept(NamedTuple):
    """An array and what it stands for: a tensor's memory, as of an in-place change. It keeps shared memory alive,
    so that an equal pointer can't be another tensor's. Replaced as a whole: calls may come from several threads."""

    array: Any
    pointer: int
    version: int


@dataclass(slots=True)
class _Slot:
    """One graph input. leaf: its position among the call's leaves, -1 where the program owns the tensor.

    kept: what the device holds of a tensor that comes back call after call, None for nothing. seen: the tensor
    of the last call; as it dies, what is kept of it goes too. donated: the call uses the array up.
    """

    position: int
    entry: Input
    dtype: torch.dtype
    held: DType
    leaf: int
    tensor: Any
    donated: bool
    kept: _Kept | None = None
    seen: weakref.ref[torch.Tensor] | None = None

    @property
    def label(self) -> str:
        return self.entry.path or self.entry.value.name

    @property
    def recurs(self) -> bool:
        """Whether the tensor outlives the call: what is kept for it holds no memory that would be free otherwise."""
        return self.entry.kind in ("parameter", "buffer", "constant")

    def forget(self, _: object) -> None:
        self.kept = None


class CompiledProgram:
    """`compiled(*args, **kwargs)` takes what the program took, and returns what it returned, without gradients.

    Before the call returns, a mutated tensor has its new contents, and a tensor that the program computed a
    gradient for has it as `.grad`. Results own their memory. `transfers` counts how tensors crossed;
    `executable` runs on device arrays directly.
    """

    def __init__(self, program: Program, executable: Executable, donate: tuple[str, ...] = ()) -> None:
        self.program, self.executable, self.transfers = program, executable, Transfers()
        self._calling: Calling = program.calling
        self._execute = executable.loaded.execute
        self._slots = self._make_slots(donate)
        self._passed = [slot for slot in self._slots if slot.tensor is None]
        self._bound = [slot for slot in self._slots if slot.tensor is not None]
        self._seeded = program.is_seeded
        self._flat = self._flat_count()
        outputs = program.graph.outputs
        count = itertools.count()  # an output without a value (an undefined gradient) is none of the executable's
        self._positions = [-1 if output.value is None else next(count) for output in outputs]
        by_name = {slot.entry.value.name: slot for slot in self._slots}
        by_path = {slot.entry.path: slot for slot in self._slots}
        self._mutations = [(i, by_name[o.target]) for i, o in enumerate(outputs) if o.kind == "mutation"]
        self._gradients = [(i, by_path[path]) for path, i in self._calling.gradients.items()]
        results = (entry for entry in self._calling.results if not isinstance(entry, tuple))
        self._wanted = list(dict.fromkeys((*results, *self._calling.gradients.values())))
        for slot in self._bound:
            self._kept(slot, slot.tensor)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = args if not kwargs and len(args) == self._flat else self._flatten(args, kwargs)
        results = self.call_flat(leaves)
        spec = self._calling.out_spec
        return tuple(results) if spec is None else pytree.tree_unflatten(results, spec)

    def call_flat(self, leaves: Sequence[Any]) -> list[Any]:
        """From the leaves of (args, kwargs) to the leaves of the result."""
        # Execution goes on after `execute` returns, and reads the arguments' own memory; every result that is
        # handed out below waits for it, so the caller may change the arguments as soon as the call is over.
        arrays = self._arrays(leaves)
        if self._mutations:
            self._refuse_shared_writes(leaves)
        outputs = self._execute(arrays)
        for index, slot in self._mutations:
            self._write_back(slot, outputs[self._positions[index]], leaves)
        tensors: dict[int, torch.Tensor | None] = {}
        for index in self._wanted:
            tensors[index] = self._tensor(index, outputs)
        for index, slot in self._gradients:
            self._passed_tensor(slot, leaves).grad = tensors[index]
        return [entry[1] if isinstance(entry, tuple) else tensors[entry] for entry in self._calling.results]

    def _tensor(self, index: int, outputs: Sequence[Any]) -> torch.Tensor | None:
        value = self.program.graph.outputs[index].value
        if value is None:
            return None
        return to_torch(outputs[self._positions[index]], value.dtype, self.executable.client, self.transfers)

    def _make_slots(self, donate: tuple[str, ...]) -> list[_Slot]:
        leaf_of = {name: i for i, name in enumerate(self._calling.arguments) if name is not None}
        slots = []
        for position, entry in enumerate(self.program.graph.inputs):
            value = entry.value
            tensor = self._calling.bound.get(value.name)
            if tensor is None and value.name not in leaf_of:
                raise UsageError(
                    f"the program has no tensor for {entry.kind} {entry.path or value.name!r}",
                    help="compile it with the weights it was lowered with",
                )
            leaf = -1 if tensor is not None else leaf_of[value.name]
            held = self.program.held(value)
            dtype = dtypes.torch_dtype(value.dtype)
            slots.append(_Slot(position, entry, dtype, held, leaf, tensor, value.name in donate))
        return slots

    def _arrays(self, leaves: Sequence[Any]) -> list[Any]:
        arrays: list[Any] = [None] * len(self._slots)
        for slot in self._bound:
            arrays[slot.position] = self._kept(slot, slot.tensor)
        client, transfers = self.executable.client, self.transfers
        for slot in self._passed:
            tensor = leaves[slot.leaf]
            if type(tensor) is not torch.Tensor and not isinstance(tensor, torch.Tensor):
                tensor = self._number(slot, tensor)
            if tensor.dtype is not slot.dtype or tensor.shape != slot.entry.value.shape:
                self._refuse(slot, f"{dtypes.of(tensor.dtype)}[{','.join(map(str, tensor.shape))}]")
            if slot.recurs or (slot.seen is not None and slot.seen() is tensor):
                arrays[slot.position] = self._kept(slot, tensor)
            else:
                slot.kept, slot.seen = None, weakref.ref(tensor, slot.forget)
                arrays[slot.position] = to_device(tensor, slot.held, client, transfers)
        if self._seeded:
            words = torch.empty(2, dtype=torch.int64).random_(0, 1 << 32).to(torch.uint32)
            arrays.append(to_device(words, dtypes.uint32, client, transfers))
        return arrays

    def _kept(self, slot: _Slot, tensor: torch.Tensor) -> Any:
        """The array for a tensor that comes back call after call, made anew only where it must be.

        A shared array shows every later change of the tensor by itself. A copy on an accelerator is good
        as long as the tensor's version counter stands still, so a change behind the counter's back (through
        `.data`) is not seen there. A copy on the CPU is made at each call.
        """
        on_cpu = self.executable.client.target == "cpu"
        kept = slot.kept
        if kept is not None and kept.pointer == tensor.data_ptr() and (on_cpu or kept.version == tensor._version):
            return kept.array
        slot.kept = None
        if slot.donated:
            return to_device(tensor, slot.held, self.executable.client, self.transfers)
        # Detached: the array would keep the tensor object itself alive otherwise, and `seen` would never die.
        array = to_device(tensor.detach(), slot.held, self.executable.client, self.transfers)
        pointer = tensor.data_ptr()
        if on_cpu:
            if pointer and array.unsafe_buffer_pointer() == pointer:
                slot.kept = _Kept(array, pointer, 0)
        elif not tensor.is_inference():  # inference tensors have no version counter
            slot.kept = _Kept(array, pointer, tensor._version)
        return array

    def _refuse_shared_writes(self, leaves: Sequence[Any]) -> None:
        """Raises UsageError where memory that the call writes belongs to another argument too.

        The program was lowered for independent inputs: eager would show the write in both. What the program owns was
        looked at while it was recorded.
        """
        written: dict[int, list[_Slot]] = {}
        for _, slot in self._mutations:
            memory = self._passed_tensor(slot, leaves).untyped_storage().data_ptr()
            written.setdefault(memory, []).append(slot)
        for slot in self._passed:
            tensor = leaves[slot.leaf]
            sharing = written.get(tensor.untyped_storage().data_ptr(), ()) if isinstance(tensor, torch.Tensor) else ()
            for other in sharing:
                if other is not slot and _overlap(tensor, self._passed_tensor(other, leaves)):
                    raise UsageError(
                        f"{self._name} writes to memory that two of its arguments share",
                        values=f"{other.label!r}, which it writes, and {slot.label!r}",
                        why="it was lowered with independent tensors: the write would be seen through one only",
                        help="pass copies, or lower a program that takes one tensor and makes the views itself",
                    )

    def _write_back(self, slot: _Slot, array: Any, leaves: Sequence[Any]) -> None:
        """Gives a mutated tensor its new contents."""
        tensor = self._passed_tensor(slot, leaves)
        with torch.no_grad():
            tensor.copy_(to_torch(array, slot.entry.value.dtype, self.executable.client, self.transfers))
        if slot.kept is not None and self.executable.client.target != "cpu":
            slot.kept = _Kept(array, tensor.data_ptr(), tensor._version)

    def _passed_tensor(self, slot: _Slot, leaves: Sequence[Any]) -> Any:
        return slot.tensor if slot.leaf < 0 else leaves[slot.leaf]

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The leaves of a call, which must have the structure and the baked numbers the program was lowered with."""
        calling = self._calling
        if calling.in_spec is None:
            if kwargs or len(args) != len(calling.arguments):
                raise UsageError(
                    f"{self._name} was called with the wrong number of arguments",
                    values=f"it takes {len(calling.arguments)} tensors in order, got {len(args)}"
                    + (f" and the keywords {', '.join(kwargs)}" if kwargs else ""),
                )
            return args
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != calling.in_spec:
            raise UsageError(
                f"{self._name} was called with other arguments than it was lowered with",
                values=f"expected {_structure(calling.in_spec)}\n     got {_structure(spec)}",
                why="a compiled program has one structure of arguments",
                help="call it as it was lowered, or lower it again with these arguments",
            )
        for position, expected in calling.baked.items():
            got = leaves[position]
            if not _same_leaf(expected, got):
                raise UsageError(
                    f"{self._name} was lowered with another value of argument {_leaf_name(calling.in_spec, position)}",
                    values=f"lowered with {expected!r}, got {got!r}",
                    why="an argument that is no tensor is part of the compiled program",
                    help="lower it again with this value, or pass it as a 0-dim tensor",
                )
        return leaves

    def _flat_count(self) -> int:
        """The number of arguments if they are exactly the leaves (no nesting, keywords or baked values), else -1."""
        calling = self._calling
        count = len(calling.arguments)
        if calling.in_spec is None:
            return count
        plain = pytree.tree_structure(((0,) * count, {}))
        return count if plain == calling.in_spec and not calling.baked else -1

    def _number(self, slot: _Slot, given: Any) -> torch.Tensor:
        """A Python number passed for an input that is one, rounded once to the input's dtype (law N6)."""
        if slot.entry.value.scalar and isinstance(given, bool | int | float | complex):
            number = torch.tensor(given, dtype=dtypes.torch_dtype(dtypes.of(type(given))))
            if torch.can_cast(number.dtype, slot.dtype):  # never a float for an int
                return number.to(slot.dtype)
        shown = repr(given) if given is None or isinstance(given, bool | int | float | complex | str) else None
        self._refuse(slot, f"{shown or f'a {type(given).__name__}'}, which is no tensor")

    def _refuse(self, slot: _Slot, got: str) -> NoReturn:
        raise UsageError(
            f"{self._name} got a wrong tensor for {slot.entry.kind} {slot.label!r}",
            values=f"expected {slot.entry.value}, got {got}",
            why="a compiled program has fixed dtypes and shapes",
            help="convert the argument, or lower the program again with arguments like this one",
        )

    @property
    def _name(self) -> str:
        return f"the compiled program {self.program.graph.name!r}"


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the bytes from a tensor's first to its last element meet another's."""
    (begin, end), (start, stop) = _bytes(a), _bytes(b)
    return begin < stop and start < end


def _bytes(tensor: torch.Tensor) -> tuple[int, int]:
    begin = tensor.data_ptr()
    if not tensor.numel():
        return begin, begin
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * tensor.element_size()


def _same_leaf(expected: Any, got: Any) -> bool:
    """Whether two leaves are the same literal: 1, 1.0 and True are not, and nan is itself."""
    return type(expected) is type(got) and (expected is got or expected == got or repr(expected) == repr(got))


def _structure(spec: Any) -> str:
    args, kwargs = pytree.tree_unflatten(["*"] * spec.num_leaves, spec)
    return "(" + ", ".join([*map(_plain, args), *(f"{k}={_plain(v)}" for k, v in kwargs.items())]) + ")"


def _plain(nest: Any) -> str:
    return str(nest).replace("'*'", "*")


def _leaf_name(spec: Any, position: int) -> str:
    """How a person writes the leaf: args[0], or a keyword's name, and the way from there."""
    args, kwargs = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    for path, leaf in pytree.tree_flatten_with_path((args, kwargs))[0]:
        if leaf == position:
            inside = path[0].idx == 0
            return f"args{pytree.keystr(path[1:])}" if inside else f"{path[1].key}{pytree.keystr(path[2:])}"
    raise AssertionError(position)

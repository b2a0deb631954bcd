"""A compiled program as a callable on torch tensors.

Everything that can be settled once is settled when it is made, so that a call with hundreds of arguments
costs a few microseconds each at most: which graph input each leaf is, the arrays that share the memory of
the program's own tensors, where each result goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

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


@dataclass(slots=True)
class _Slot:
    """One graph input. leaf: its position among the call's leaves, -1 where the program owns the tensor.

    array, pointer, version: what the device holds of a tensor that comes back call after call, and which
    memory, as of which in-place change, it stands for. A kept array keeps shared memory alive, so that an
    equal pointer can't be another tensor's.
    """

    position: int
    entry: Input
    dtype: torch.dtype
    held: DType
    leaf: int
    tensor: Any
    array: Any = None
    pointer: int = 0
    version: int = 0

    @property
    def recurs(self) -> bool:
        return self.entry.kind in ("parameter", "buffer", "constant")

    @property
    def label(self) -> str:
        return self.entry.path or self.entry.value.name


class CompiledProgram:
    """`compiled(*args, **kwargs)` takes what the program took, and returns what it returned, without gradients.

    A mutation's new contents are written to the tensor that was mutated before the call returns. Results own
    their memory. `transfers` counts how tensors crossed; `executable` runs on device arrays directly.
    """

    def __init__(self, program: Program, executable: Executable) -> None:
        self.program, self.executable, self.transfers = program, executable, Transfers()
        self._calling: Calling = program.calling
        self._execute = executable.loaded.execute
        self._slots = self._make_slots()
        self._passed = [slot for slot in self._slots if slot.tensor is None]
        self._bound = [slot for slot in self._slots if slot.tensor is not None]
        self._seeded = program.is_seeded
        self._flat = self._flat_count()
        # Graph outputs without a value (an undefined gradient) are not among the executable's.
        positions = iter(range(len(program.graph.outputs)))
        self._outputs = [None if o.value is None else next(positions) for o in program.graph.outputs]
        self._mutations = [
            (index, next(slot for slot in self._slots if slot.entry.value.name == output.target))
            for index, output in enumerate(program.graph.outputs)
            if output.kind == "mutation"
        ]
        for slot in self._bound:
            self._kept(slot, slot.tensor)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = args if not kwargs and len(args) == self._flat else self._flatten(args, kwargs)
        results = self.call_flat(leaves)
        spec = self._calling.out_spec
        return tuple(results) if spec is None else pytree.tree_unflatten(results, spec)

    def call_flat(self, leaves: Sequence[Any]) -> list[Any]:
        """From the leaves of (args, kwargs) to the leaves of the result."""
        outputs = self._execute(self._arrays(leaves))
        for array in outputs:
            array.block_until_ready()
        client, transfers = self.executable.client, self.transfers
        tensors: dict[int, torch.Tensor] = {}
        for index, slot in self._mutations:
            self._write_back(slot, outputs[self._outputs[index]], leaves)
        results = []
        for entry in self._calling.results:
            if isinstance(entry, tuple):
                results.append(entry[1])
                continue
            position = self._outputs[entry]
            if position is None:
                results.append(None)
                continue
            if entry not in tensors:
                dtype = self.program.graph.outputs[entry].value.dtype
                tensors[entry] = to_torch(outputs[position], dtype, client, transfers)
            results.append(tensors[entry])
        return results

    def _make_slots(self) -> list[_Slot]:
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
            slots.append(_Slot(position, entry, dtypes.torch_dtype(value.dtype), held, leaf, tensor))
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
            if slot.recurs:
                arrays[slot.position] = self._kept(slot, tensor)
            else:
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
        same_memory = slot.array is not None and slot.pointer == tensor.data_ptr()
        if same_memory and (on_cpu or slot.version == tensor._version):
            return slot.array
        slot.array = None
        array = to_device(tensor, slot.held, self.executable.client, self.transfers)
        pointer = tensor.data_ptr()
        if on_cpu:
            keep = pointer != 0 and array.unsafe_buffer_pointer() == pointer
        else:
            keep = not tensor.is_inference()
            slot.version = tensor._version if keep else 0
        if keep:
            slot.array, slot.pointer = array, pointer
        return array

    def _write_back(self, slot: _Slot, array: Any, leaves: Sequence[Any]) -> None:
        """Gives a mutated tensor its new contents."""
        tensor = slot.tensor if slot.leaf < 0 else leaves[slot.leaf]
        with torch.no_grad():
            tensor.copy_(to_torch(array, slot.entry.value.dtype, self.executable.client, self.transfers))
        if slot.array is not None and self.executable.client.target != "cpu":
            slot.array, slot.version = array, tensor._version

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
            return torch.full((), given, dtype=slot.dtype)
        self._refuse(slot, f"a {type(given).__name__}")

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


def _same_leaf(expected: Any, got: Any) -> bool:
    """Whether two leaves are the same literal: 1, 1.0 and True are not, and nan is itself."""
    return type(expected) is type(got) and (expected is got or expected == got or repr(expected) == repr(got))


def _structure(spec: Any) -> str:
    args, kwargs = pytree.tree_unflatten(["*"] * spec.num_leaves, spec)
    return "(" + ", ".join([*map(_plain, args), *(f"{k}={_plain(v)}" for k, v in kwargs.items())]) + ")"


def _plain(nest: Any) -> str:
    return str(nest).replace("'*'", "*")


def _leaf_name(spec: Any, position: int) -> str:
    args, kwargs = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    for path, leaf in pytree.tree_flatten_with_path((args, kwargs))[0]:
        if leaf == position:
            return pytree.keystr(path[1:])
    raise AssertionError(position)

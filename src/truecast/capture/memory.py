"""Which memory each of the program's tensors is in: the tape's book of tensors, by identity.

A tensor is known by its id (a weak reference tells when that ends) and by its storage: `tensor.data = other`
changes the second alone. A tensor that no recorded operation made is either in memory that is known (a Parameter
made of a recorded tensor), and then a view of it, or it becomes a graph input. With a fake mode, an input that is
real gets a twin: the fake tensor on which the operations run in its place.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch

from truecast import dtypes
from truecast.capture import torch_fake, torch_seam
from truecast.capture.aliasing import Alias, Emit, Step, memory_order, read
from truecast.dtypes import DType
from truecast.errors import CaptureError, UnsupportedError
from truecast.graph import InputKind, Value
from truecast.sites import Site

Layout = tuple[tuple[int, ...], int]  # strides, storage offset


@dataclass(slots=True)
class Entry:
    """A graph input: its first value and its alias.

    tensor: what the program owns; None for an input of kind input, which may die (a batch of a training loop).
    gradient: the tensor's `.grad` when it was first seen. literal: whether its contents are Python numbers of the
    program's, the same at each call.
    """

    value: Value
    kind: InputKind
    path: str
    tensor: torch.Tensor | None
    alias: Alias[Value]
    gradient: torch.Tensor | None = None
    literal: bool = False


class _Key(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that remembers the id of its tensor."""

    __slots__ = ("key",)
    key: int


class Memory:
    """identify(tensor) -> (kind, path) of a tensor that becomes an input; name(path) -> a free value name;
    here() -> the site of the operation being recorded."""

    def __init__(
        self,
        fake_mode: torch_fake.FakeTensorMode | None,
        emit: Emit[Value],
        identify: Callable[[torch.Tensor], tuple[InputKind, str]],
        name: Callable[[str], str],
        here: Callable[[], Site],
    ) -> None:
        self.inputs: list[Entry] = []
        self.twins: dict[int, torch.Tensor] = {}  # of the operation being recorded: id of a real tensor -> its twin
        self._fake_mode, self._emit, self._identify, self._name, self._here = fake_mode, emit, identify, name, here
        self._known: dict[int, tuple[_Key, Alias[Value], int, torch.Tensor | None]] = {}
        self._roots: dict[
            int, list[Alias[Value]]
        ] = {}  # storage key -> roots in that memory; several only among inputs
        self._held: list[int] = []
        self._dtypes: dict[torch.dtype, DType] = {}

    # -- questions ---------------------------------------------------------------------------------------------

    def alias_of(self, tensor: torch.Tensor) -> Alias[Value]:
        """The tensor's place; one that is not known becomes known."""
        known = self._known.get(id(tensor))
        if known is not None:
            _, alias, storage, twin = known
            if storage == torch_seam.storage_key(tensor):
                if twin is not None:
                    self.twins[id(tensor)] = twin
                return alias
        return self._adopt(tensor)

    def read(self, tensor: torch.Tensor) -> Value:
        """What the tensor holds now."""
        return read(self.alias_of(tensor), self._emit)

    def knows(self, tensor: torch.Tensor) -> bool:
        known = self._known.get(id(tensor))
        return known is not None and known[0]() is tensor

    def living(self) -> list[Alias[Value]]:
        """The aliases of the tensors that the program still holds."""
        return [alias for reference, alias, _, _ in list(self._known.values()) if reference() is not None]

    def shape(self, tensor: torch.Tensor) -> tuple[int, ...]:
        shape = tuple(tensor.shape)
        for extent in shape:
            if type(extent) is not int:
                raise CaptureError(
                    "a size that is not known while recording",
                    where=self._here(),
                    values=f"a tensor of shape {list(shape)}",
                    why="a Graph has static shapes: every extent is a number",
                    help="record with static shapes (no mark_dynamic, no ShapeEnv), once per shape",
                )
        return shape

    def shape_now(self, tensor: torch.Tensor) -> tuple[int, ...]:
        """The shape after the operation that is being recorded ran, on the twin if there is one."""
        return self.shape(self.twins.get(id(tensor), tensor))

    def dtype(self, tensor: torch.Tensor) -> DType:
        return self.known_dtype(tensor.dtype)

    def known_dtype(self, named: torch.dtype) -> DType:
        dtype = self._dtypes.get(named)
        if dtype is None:
            try:
                dtype = self._dtypes[named] = dtypes.of(named)
            except KeyError:
                raise UnsupportedError(
                    f"a tensor of dtype {named}", where=self._here(), why="truecast has no such dtype"
                ) from None
        return dtype

    # -- entries -----------------------------------------------------------------------------------------------

    def declare(self, tensor: torch.Tensor, kind: InputKind, path: str) -> Value:
        """Makes `tensor` a graph input, before the program sees it; a tensor passed twice is one input."""
        if self.knows(tensor):
            return self._known[id(tensor)][1].value
        return self._new_input(tensor, kind, path).value

    def add_contents(self, tensor: torch.Tensor, kind: InputKind) -> Value:
        """An input with the contents of `tensor`, which the program has not got its hands on; a constant is copied."""
        value = Value(self._name(kind), self.dtype(tensor), self.shape(tensor))
        kept = None
        if kind != "input":
            with torch_seam.without_modes():
                kept = tensor if isinstance(tensor, torch_fake.FakeTensor) else tensor.clone()
        self.inputs.append(Entry(value, kind, value.name, kept, Alias(value), literal=True))
        return value

    def literal(self, name: str) -> torch.Tensor | None:
        """The contents of an input that stands for Python numbers; None for any other."""
        entry = next((e for e in self.inputs if e.value.name == name), None)
        if entry is None or not entry.literal or isinstance(entry.tensor, torch_fake.FakeTensor):
            return None
        return entry.tensor

    def add(self, tensor: torch.Tensor, value: Value) -> bool:
        """`tensor` has memory of its own, which holds `value`. False if its memory is known: then nothing is done."""
        key, held = torch_seam.hold_storage(tensor)
        self._held.append(held)
        if key in self._roots:
            return False
        alias = Alias(value)
        alias.layout = _layout(tensor)
        self._roots[key] = [alias]
        reference = _Key(tensor, self._forget)
        reference.key = id(tensor)
        self._known[reference.key] = (reference, alias, key, None)
        return True

    def rebind(self, tensor: torch.Tensor, value: Value) -> None:
        """The tensor, known so far, has new memory, which holds `value`."""
        self._roots.pop(torch_seam.storage_key(tensor), None)
        alias = Alias(value)
        self._root(tensor, alias)
        self.remember(tensor, alias, self.twins.get(id(tensor)))

    def remember(self, tensor: torch.Tensor, alias: Alias[Value], twin: torch.Tensor | None = None) -> None:
        """`tensor` is where `alias` says."""
        key = id(tensor)
        reference = _Key(tensor, self._forget)
        reference.key = key
        self._known[key] = (reference, alias, torch_seam.storage_key(tensor), twin)
        if twin is not None:
            self.twins[key] = twin

    def drop(self, tensor: torch.Tensor) -> None:
        """The tensor's memory is another now: it is looked up when the tensor is next seen."""
        del self._known[id(tensor)]

    def swap(self, a: torch.Tensor, b: torch.Tensor, exchange: Callable[[], None]) -> None:
        """The two tensors exchange their memory by `exchange`, during which none of them is known."""
        places = [self._known.pop(id(tensor), None) for tensor in (b, a)]
        aliases = [None if place is None else (place[1], place[3]) for place in places]
        del places  # with their weak references
        exchange()
        for tensor, known in zip((a, b), aliases, strict=True):
            if known is not None:
                self.remember(tensor, *known)

    def close(self) -> None:
        torch_seam.release_storages(self._held)
        self._held = []
        self._known.clear()
        self._roots.clear()

    def _forget(self, reference: _Key) -> None:
        known = self._known.get(reference.key)
        if known is not None and known[0] is reference:  # not if the id is another tensor's by now
            del self._known[reference.key]

    def _root(self, tensor: torch.Tensor, alias: Alias[Value]) -> None:
        key, held = torch_seam.hold_storage(tensor)
        self._roots.setdefault(key, []).append(alias)
        self._held.append(held)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is one that a Graph can have: dense, of numbers."""
        return tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested

    def refuse_other_than_dense(self, tensor: torch.Tensor) -> None:
        if not self.holds(tensor):
            nested = "nested " if tensor.is_nested else ""
            raise UnsupportedError(
                f"a {nested}tensor of layout {tensor.layout}, dtype {tensor.dtype}",
                where=self._here(),
                why="a Graph has dense tensors of numbers only",
                help="convert it to a dense tensor before (`.to_dense()`, `.dequantize()`, `.to_padded_tensor(0)`)",
            )

    def _adopt(self, tensor: torch.Tensor) -> Alias[Value]:
        self.refuse_other_than_dense(tensor)
        shape, dtype, layout = self.shape(tensor), self.dtype(tensor), _layout(tensor)
        for root in self._roots.get(torch_seam.storage_key(tensor), ()):
            if (shape, dtype, layout) == (root.value.shape, root.value.dtype, root.layout):
                self.remember(tensor, root, self._twin_in(root, tensor))
                return root
            outer, inner = _span(root.value.shape, root.layout), _span(shape, layout)
            if dtype is root.value.dtype and outer[0] <= inner[0] and inner[1] <= outer[1]:
                alias = self._strided(root, tensor, dtype, shape)
                self.remember(tensor, alias, self._twin_in(root, tensor))
                return alias
        kind, path = self._identify(tensor)
        return self._new_input(tensor, kind, path)

    def _new_input(self, tensor: torch.Tensor, kind: InputKind, path: str) -> Alias[Value]:
        value = Value(self._name(path or kind), self.dtype(tensor), self.shape(tensor))
        alias = Alias(value)
        alias.layout = _layout(tensor)
        gradient = tensor.grad if tensor.is_leaf and tensor.requires_grad else None
        owned = None if kind == "input" else tensor
        self.inputs.append(Entry(value, kind, path or value.name, owned, alias, gradient))
        self._root(tensor, alias)
        self.remember(tensor, alias, self._twin(tensor))
        return alias

    def _strided(self, root: Alias[Value], tensor: torch.Tensor, dtype: DType, shape: tuple[int, ...]) -> Alias[Value]:
        """A view of known memory that came about without an operation (`parameter.data = flat[3:7]`)."""
        dense = memory_order(root, self._emit)
        offset = tensor.storage_offset() - (root.layout[1] if root.layout else 0)
        arguments = (shape, tuple(tensor.stride()), offset)
        value = self._emit("aten.as_strided.default", (read(dense, self._emit), *arguments), (), dtype, shape)
        return dense.view(Step("aten.as_strided.default", arguments), value)

    def _twin(self, tensor: torch.Tensor) -> torch.Tensor | None:
        mode = self._fake_mode
        if mode is None or (isinstance(tensor, torch_fake.FakeTensor) and tensor.fake_mode is mode):
            return None
        extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        with torch_seam.without_modes(), mode:
            memory = torch.empty(tensor.storage_offset() + max(extent, 0), dtype=tensor.dtype, device=tensor.device)
            return memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _twin_in(self, root: Alias[Value], tensor: torch.Tensor) -> torch.Tensor | None:
        """The twin of a tensor that shares memory with a known one: a view of that one's twin."""
        if self._fake_mode is None or isinstance(tensor, torch_fake.FakeTensor):
            return None
        twins = (twin for _, alias, _, twin in self._known.values() if alias.root is root and twin is not None)
        with torch_seam.without_modes(), self._fake_mode:
            return next(twins).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def refuse_shared(self, tensor: torch.Tensor, alias: Alias[Value]) -> None:
        """Raises CaptureError if a write to `tensor` would be seen through two inputs."""
        roots = self._roots.get(torch_seam.storage_key(tensor), ())
        if len(roots) < 2:
            return
        span = _span(alias.root.value.shape, alias.root.layout)
        for root in roots:
            other = _span(root.value.shape, root.layout)
            if root is not alias.root and span[0] < other[1] and other[0] < span[1]:
                raise shared_write((alias.root.value.name, root.value.name), self._here())


def shared_write(names: tuple[str, ...], where: Site | None = None) -> CaptureError:
    """The error for a write to memory that several inputs share."""
    return CaptureError(
        "a write to memory that two inputs share",
        where=where,
        values=" and ".join(f"%{name}" for name in names),
        why="a Graph's inputs are independent of one another, so the write would be seen through one only",
        help="pass one tensor and take views of it inside, or pass copies",
    )


def _layout(tensor: torch.Tensor) -> Layout | None:
    """None for contiguous memory from offset 0 on."""
    if tensor.is_contiguous() and tensor.storage_offset() == 0:
        return None
    return tuple(tensor.stride()), tensor.storage_offset()


def _span(shape: tuple[int, ...], layout: Layout | None) -> tuple[int, int]:
    """The first element of memory that a tensor has, and the one after its last (in units of its dtype)."""
    count = 1
    for extent in shape:
        count *= extent
    if count == 0:
        return (0, 0)
    if layout is None:
        return (0, count)
    strides, offset = layout
    return (offset, offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)))

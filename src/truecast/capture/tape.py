"""The tape: a dispatch mode that writes every ATen operation of a program down as a functional Graph.

It sees operations below autograd, so a backward pass, an optimizer step and torch.func transforms are on it like
anything else. The program's tensors, real or fake, stay what they are; the tape knows for each of them an `Alias`
(aliasing.py), and thus the Value it holds now. With a fake mode, real tensors that the program owns (parameters,
captured constants) are never touched: each has a fake twin, on which the operations run.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from truecast import dtypes
from truecast.capture import torch_seam
from truecast.capture.aliasing import Alias, Step, memory_order, read, single_step, write
from truecast.capture.functional import HIDDEN_WRITES, FunctionalForm
from truecast.capture.overloads import Overload, learn
from truecast.capture.position import Position, Tracker
from truecast.dtypes import DType
from truecast.errors import CaptureError, UnsupportedError
from truecast.graph import Argument, Graph, Input, InputKind, Node, Output, Token, Value
from truecast.ops.schema import overload, schema

_NowhereYet = Position(None, 0, "", "forward")


@dataclass(slots=True)
class Entry:
    """A graph input: its first value, its tensor (kept alive, so that its id stays its own) and its alias."""

    value: Value
    kind: InputKind
    path: str
    tensor: torch.Tensor
    alias: Alias
    gradient: torch.Tensor | None = None  # the tensor's `.grad` when it was first seen


class _Key(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that remembers the id of its tensor."""

    __slots__ = ("key",)
    key: int


class Tape(torch_seam.TorchDispatchMode):
    """Records what runs while it is active; `Recorder` in recorder.py wraps it.

    fake_mode: runs the operations on fake tensors of this mode. unknown: the kind of input that a tensor becomes
    which neither a module owns nor the caller declared.
    """

    def __init__(
        self,
        *,
        fake_mode: torch_seam.FakeTensorMode | None = None,
        unknown: InputKind = "constant",
        check: Callable[[Overload, tuple[Any, ...], dict[str, Any], Tape], tuple[tuple[Any, ...], dict[str, Any]]]
        | None = None,
    ) -> None:
        super().__init__()
        self.tracker = Tracker()
        self.inputs: list[Entry] = []
        self.reads: list[Position] = []  # where the program looked at a tensor's contents (item, bool)
        self.failed: Position | None = None  # the innermost operation that raised
        self._fake_mode = fake_mode
        self._unknown: InputKind = unknown
        self._check = check
        self._records: list[
            tuple[str, tuple[Argument, ...], tuple[tuple[str, Argument], ...], tuple[Value | None, ...], Position]
        ] = []
        self._position = _NowhereYet
        self._names: set[str] = set()
        self._known: dict[int, tuple[_Key, Alias, int, torch.Tensor | None]] = {}
        self._roots: dict[int, list[Alias]] = {}  # storage key -> roots in that memory, more than one only among inputs
        self._held: list[int] = []
        self._twins: dict[int, torch.Tensor] = {}  # of the operation being recorded: id of a real tensor -> its twin
        self._dtypes: dict[torch.dtype, DType] = {}

    # -- what the program's tensors are ------------------------------------------------------------------------

    def declare(self, tensor: torch.Tensor, kind: InputKind, path: str) -> str:
        """Makes `tensor` a graph input, before the program sees it; returns its value's name."""
        known = self._known.get(id(tensor))
        if known is not None:
            return known[1].value.name  # one tensor passed twice
        return self._new_input(tensor, kind, path, self._twin(tensor)).value.name

    def first_value_of(self, tensor: torch.Tensor) -> Value:
        """The input value of a tensor that the program owned before it was recorded."""
        alias = self.alias_of(tensor)
        entry = next((e for e in self.inputs if e.alias is alias), None)
        assert entry is not None, "a tensor that was there before the recording is an input"
        return entry.value

    def value_of(self, tensor: torch.Tensor) -> Value:
        """What `tensor` holds now; a tensor that the tape has not seen becomes an input."""
        return read(self.alias_of(tensor), self._emit)

    def alias_of(self, tensor: torch.Tensor) -> Alias:
        known = self._known.get(id(tensor))
        if known is not None:
            _, alias, storage, twin = known
            if storage == torch_seam.storage_key(tensor):  # differs after `tensor.data = other`
                if twin is not None:
                    self._twins[id(tensor)] = twin
                return alias
        return self._adopt(tensor)

    def living(self) -> list[Alias]:
        """The aliases of the tensors that the program still holds."""
        return [alias for reference, alias, _, _ in list(self._known.values()) if reference() is not None]

    def held(self, alias: Alias) -> Value:
        """What the memory of `alias` holds now, as the tensor sees it."""
        return read(alias, self._emit)

    def _adopt(self, tensor: torch.Tensor) -> Alias:
        """The alias of a tensor that no recorded operation made."""
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise UnsupportedError(
                f"a tensor of layout {tensor.layout}, dtype {tensor.dtype}",
                where=self.site,
                why="a Graph has dense tensors of numbers only",
                help="convert it to a dense tensor before (`.to_dense()`, `.dequantize()`)",
            )
        shape, dtype, layout = self._shape(tensor), self._dtype(tensor), _layout(tensor)
        for root in self._roots.get(torch_seam.storage_key(tensor), ()):
            if (shape, dtype, layout) == (root.value.shape, root.value.dtype, root.layout):
                self._remember(tensor, root, self._twin_in(root, tensor))
                return root
            if dtype is root.value.dtype and _contains(_span(root.value.shape, root.layout), _span(shape, layout)):
                alias = self._strided(root, tensor, dtype, shape)
                self._remember(tensor, alias, self._twin_in(root, tensor))
                return alias
        kind, path = self.tracker.tensors.get(id(tensor), ("", ""))
        if not kind:
            kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else self._unknown
        return self._new_input(tensor, kind, path, self._twin(tensor))  # type: ignore[arg-type]

    def _new_input(self, tensor: torch.Tensor, kind: InputKind, path: str, twin: torch.Tensor | None) -> Alias:
        value = Value(self._input_name(path or kind), self._dtype(tensor), self._shape(tensor))
        alias = Alias(value)
        alias.layout = _layout(tensor)
        gradient = tensor.grad if tensor.is_leaf and tensor.requires_grad else None
        self.inputs.append(Entry(value, kind, path or value.name, tensor, alias, gradient))
        self._root(tensor, alias)
        self._remember(tensor, alias, twin)
        return alias

    def _strided(self, root: Alias, tensor: torch.Tensor, dtype: DType, shape: tuple[int, ...]) -> Alias:
        """A view of known memory that came about without an operation (`parameter.data = flat[3:7]`)."""
        dense = memory_order(root, self._emit)
        offset = tensor.storage_offset() - (root.layout[1] if root.layout else 0)
        arguments = (shape, tuple(tensor.stride()), offset)
        value = self._emit("aten.as_strided.default", (read(dense, self._emit), *arguments), (), dtype, shape)
        return dense.view(Step("aten.as_strided.default", arguments), value)

    def _twin(self, tensor: torch.Tensor) -> torch.Tensor | None:
        mode = self._fake_mode
        if mode is None or (isinstance(tensor, torch_seam.FakeTensor) and tensor.fake_mode is mode):
            return None
        with mode:
            extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
            memory = torch.empty(tensor.storage_offset() + max(extent, 0), dtype=tensor.dtype, device=tensor.device)
            return memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _twin_in(self, root: Alias, tensor: torch.Tensor) -> torch.Tensor | None:
        """The twin of a tensor that shares memory with a known one: a view of that one's twin."""
        if self._fake_mode is None or isinstance(tensor, torch_seam.FakeTensor):
            return None
        twins = (twin for _, alias, _, twin in self._known.values() if alias.root is root and twin is not None)
        with self._fake_mode:
            return next(twins).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _root(self, tensor: torch.Tensor, alias: Alias) -> None:
        self._roots.setdefault(torch_seam.storage_key(tensor), []).append(alias)
        self._held.append(torch_seam.hold_storage(tensor))

    def _remember(self, tensor: torch.Tensor, alias: Alias, twin: torch.Tensor | None = None) -> None:
        key = id(tensor)
        reference = _Key(tensor, self._forget)
        reference.key = key
        self._known[key] = (reference, alias, torch_seam.storage_key(tensor), twin)
        if twin is not None:
            self._twins[key] = twin

    def _forget(self, reference: _Key) -> None:
        known = self._known.get(reference.key)
        if known is not None and known[0] is reference:  # not if the id is another tensor's by now
            del self._known[reference.key]

    # -- recording ---------------------------------------------------------------------------------------------

    @property
    def site(self) -> Any:
        return self._position.site()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for cls in types:
            if cls is not torch_seam.FakeTensor and not _is_plain(cls):
                return NotImplemented  # a subclass with its own dispatch: the tape sees what it does inside
        kwargs = kwargs or {}
        op = learn(func)
        if op.role == "query":
            return func(*args, **kwargs)
        self._position = self.tracker.here()
        if op.role == "composite":
            with self:
                return func.decompose(*args, **kwargs)
        self._twins.clear()
        if self._check is not None:
            args, kwargs = self._check(op, args, kwargs, self)
        if op.role == "constant":
            return self._record_constant(op, func, args[0])
        node_args, node_kwargs = self._encode(args), tuple((k, self._encode(v)) for k, v in kwargs.items())
        result = self._execute(func, args, kwargs)
        if op.role == "plain":
            self._record_plain(op, node_args, node_kwargs, result)
        elif op.role == "view":
            self._record_view(op, args[0], node_args, node_kwargs, result)
        elif op.role == "identity":
            alias = self.alias_of(args[0])
            self._remember(result, alias.view(Step(op.name), read(alias, self._emit)))
        elif op.role == "write":
            return self._record_write(op, args, kwargs, node_args, node_kwargs, result)
        else:
            self._record_change(op, args, node_args, node_kwargs)
            return args[0]
        return result

    def _execute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._twins:
            args = self._with_twins(args)
            kwargs = {k: self._with_twins(v) for k, v in kwargs.items()}
        try:
            return func(*args, **kwargs)
        except Exception:
            self.failed = self._position
            raise

    def _with_twins(self, argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return self._twins.get(id(argument), argument)
        if isinstance(argument, list | tuple) and not isinstance(argument, torch.Size):
            return type(argument)(self._with_twins(a) for a in argument)
        return argument

    def _encode(self, argument: Any) -> Argument:
        kind = type(argument)
        if kind in _SAME:
            return argument
        if isinstance(argument, torch.Tensor):
            return read(self.alias_of(argument), self._emit)
        if isinstance(argument, list | tuple):
            return tuple([self._encode(a) for a in argument])
        if kind is torch.dtype:
            return dtypes.of(argument)
        if kind in _TOKENS:
            return Token(str(argument))
        if kind is torch.Generator:
            return Token("torch.Generator")
        if kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
            raise CaptureError(
                "a size that is not known while recording",
                where=self.site,
                values=str(argument),
                why="a Graph has static shapes: every extent is a number",
                help="record with static shapes (no mark_dynamic, no ShapeEnv), once per shape",
            )
        raise CaptureError(
            f"an argument of type {kind.__name__}", where=self.site, why="a Graph's arguments are tensors and literals"
        )

    def _record_plain(self, op: Overload, args: Any, kwargs: Any, result: Any) -> None:
        if isinstance(result, torch.Tensor):
            leaves: list[Any] = [result]
        elif isinstance(result, list | tuple):
            leaves = _flat(result)
        else:
            if result is not None:
                self.reads.append(self._position)
            return  # a number or a truth value: the program goes on with it, the Graph does not
        outputs = [t if t is None else self._fresh(op.stem, t) for t in leaves]
        self._records.append((op.name, args, kwargs, tuple(outputs), self._position))
        for tensor, value in zip(leaves, outputs, strict=True):
            if value is not None:
                self._bind(tensor, value)

    def _fresh(self, stem: str, tensor: Any) -> Value:
        return Value(self._node_name(stem), self._dtype(tensor), self._shape(tensor))

    def _bind(self, tensor: torch.Tensor, value: Value) -> None:
        """`tensor`, which an operation has just returned, holds `value`."""
        if tensor.layout is not torch.strided:
            raise UnsupportedError(
                f"a result of layout {tensor.layout}", where=self.site, why="a Graph has dense tensors only"
            )
        if torch_seam.storage_key(tensor) not in self._roots:
            alias = Alias(value)
            alias.layout = _layout(tensor)
            self._root(tensor, alias)
            self._remember(tensor, alias)
        elif id(tensor) not in self._known or self._known[id(tensor)][0]() is not tensor:
            self._adopt(tensor)  # an operation that returned its argument's memory without saying so

    def _record_view(self, op: Overload, viewed: torch.Tensor, args: Any, kwargs: Any, result: Any) -> None:
        parent = self.alias_of(viewed)
        leaves = [result] if isinstance(result, torch.Tensor) else list(result)
        if op.name == "aten.as_strided.default":  # speaks of the memory, not of the tensor that it is called on
            dense = memory_order(parent, self._emit)
            offset = dict(kwargs).get("storage_offset", args[3] if len(args) > 3 else None)
            offset = viewed.storage_offset() if offset is None else offset
            offset -= parent.root.layout[1] if parent.root.layout else 0
            parent, args, kwargs = dense, (read(dense, self._emit), args[1], args[2], offset), ()
        outputs = tuple(self._fresh(op.stem, t) for t in leaves)
        self._records.append((op.name, args, kwargs, outputs, self._position))
        for index, (tensor, value) in enumerate(zip(leaves, outputs, strict=True)):
            self._remember(tensor, parent.view(single_step(op.name, args, kwargs, index), value))

    def _record_constant(self, op: Overload, func: Any, tensor: torch.Tensor) -> Any:
        """`torch.tensor(2.0)`: one number becomes a literal of the Graph, several an input of kind constant."""
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            value = self.value_of(tensor)
        elif tensor.numel() == 1 and not isinstance(tensor, torch_seam.FakeTensor):
            with torch_seam.without_modes():
                number = tensor.item()
            dtype, shape = self._dtype(tensor), self._shape(tensor)
            value = self._emit("aten.full.default", (shape, number), (("dtype", dtype),), dtype, shape)
        else:
            with torch_seam.without_modes():
                kept = tensor if isinstance(tensor, torch_seam.FakeTensor) else tensor.clone()
            value = Value(self._input_name("constant"), self._dtype(tensor), self._shape(tensor))
            self.inputs.append(Entry(value, "constant", value.name, kept, Alias(value)))
        self._twins.clear()
        result = self._execute(func, (tensor,), {})
        alias = Alias(value)
        alias.layout = _layout(result)
        self._root(result, alias)
        self._remember(result, alias)
        return result

    def _record_change(self, op: Overload, args: Any, node_args: Any, kwargs: Any) -> None:
        """An operation that changes what its argument is, not (only) what its memory holds."""
        tensor = args[0]
        alias = self.alias_of(tensor)
        if op.role == "inplace_view":
            stem = op.name.split(".")[1].removesuffix("_")
            functional = f"aten.{stem}.{op.name.split('.')[2]}"
            if stem == "detach":
                return
            if stem == "as_strided":
                raise UnsupportedError("as_strided_", where=self.site, help="use as_strided, which makes a new tensor")
            value = self._emit(functional, node_args, kwargs, self._dtype(tensor), self._twin_shape(tensor))
            self._remember(
                tensor, alias.view(Step(functional, node_args[1:], kwargs), value), self._twins.get(id(tensor))
            )
        elif op.name == "aten.set_.source_Tensor":
            self._remember(tensor, self.alias_of(args[1]), self._twins.get(id(args[1])))
        elif op.name.startswith("aten.resize"):
            shape = self._twin_shape(tensor)
            if shape == alias.value.shape:
                return
            if alias.value.size:
                raise UnsupportedError(
                    f"{op.name} of a tensor with elements",
                    where=self.site,
                    values=f"{alias.value} to {list(shape)}",
                    why="it exposes memory, which a Graph does not have",
                    help="make a new tensor, or index the old one",
                )
            value = self._emit(
                "aten.empty.memory_format", (shape,), (("dtype", alias.value.dtype),), alias.value.dtype, shape
            )
            self._rebind(tensor, value)
        else:
            del self._known[id(tensor)]  # looked up by its memory when it is next seen

    def _twin_shape(self, tensor: torch.Tensor) -> tuple[int, ...]:
        return self._shape(self._twins.get(id(tensor), tensor))

    def _rebind(self, tensor: torch.Tensor, value: Value) -> None:
        """The tensor has new memory, which holds `value`."""
        self._roots.pop(torch_seam.storage_key(tensor), None)
        alias = Alias(value)
        self._root(tensor, alias)
        self._remember(tensor, alias, self._twins.get(id(tensor)))

    # -- operations that write ---------------------------------------------------------------------------------

    def _record_write(self, op: Overload, args: Any, kwargs: Any, node_args: Any, node_kwargs: Any, result: Any) -> Any:
        targets = [
            t for name, at in op.written for t in _tensors(kwargs.get(name) if at < 0 or at >= len(args) else args[at])
        ]
        name = op.name.split(".")[1]
        if op.name.startswith("aten.") and name in _DIRECT and len(targets) == 1:
            self._store(targets[0], _DIRECT[name](self, self.alias_of(targets[0]).value, node_args))
            return targets[0]
        form = op.form
        if form is None:
            raise UnsupportedError(
                f"{op.name} has no functional form",
                where=self.site,
                why="a Graph has no writes; PyTorch offers no operation that returns what this one writes",
                help="write it with operations that return new tensors",
            )
        returned = [] if result is None else [result] if isinstance(result, torch.Tensor) else list(result)
        if op.written_returns and all(op.written_returns):
            returned = []
        elif any(op.written_returns):
            returned = [r for r, is_target in zip(returned, op.written_returns, strict=True) if not is_target]
        if op.name in HIDDEN_WRITES and (not targets or not args[5]):  # batch norm, not training or without statistics
            self._record_plain(op, node_args, node_kwargs, result)
            return result
        node_kwargs = tuple((k, v) for k, v in node_kwargs if k not in form.dropped)
        node_args, node_kwargs = self._without_dropped(op, form, node_args, node_kwargs)
        made = [r if r is None else self._fresh(op.stem, r) for r in returned]
        computed = self._computed_dtypes(form, node_args, node_kwargs, [self._dtype(t) for t in targets])
        contents = [
            Value(self._node_name(op.stem), dtype, self._twin_shape(t))
            for t, dtype in zip(targets, computed, strict=True)
        ]
        self._records.append((form.op, node_args, node_kwargs, (*made, *contents), self._position))
        for tensor, value in zip(returned, made, strict=True):
            if value is not None:
                self._bind(tensor, value)
        for tensor, value in zip(targets, contents, strict=True):
            self._store(tensor, value)
        return self._original_results(op, targets, result)

    def _without_dropped(self, op: Overload, form: FunctionalForm, args: Any, kwargs: Any) -> tuple[Any, Any]:
        parameters = schema(op.name).parameters
        kept = tuple(a for a, p in zip(args, parameters, strict=False) if p.name not in form.dropped)
        return kept, kwargs

    def _original_results(self, op: Overload, targets: list[torch.Tensor], result: Any) -> Any:
        """What the program gets back: for a written argument the argument itself, never its twin."""
        if isinstance(result, torch.Tensor) and any(op.written_returns):
            return targets[0]
        if isinstance(result, list | tuple) and any(op.written_returns):
            originals = iter(targets)
            return type(result)(
                next(originals) if is_target else r for r, is_target in zip(result, op.written_returns, strict=True)
            )
        return result

    def _store(self, tensor: torch.Tensor, value: Value) -> None:
        """Writes `value` to the tensor's memory, in the tensor's dtype; an `out` of another shape is made anew."""
        alias = self.alias_of(tensor)
        held = alias.value
        if value.dtype is not held.dtype:
            value = self._emit("aten._to_copy.default", (value,), (("dtype", held.dtype),), held.dtype, value.shape)
        if value.shape != held.shape:
            self._rebind(tensor, value)
            return
        self._refuse_shared(tensor, alias)
        write(alias, value, self._emit)

    def _refuse_shared(self, tensor: torch.Tensor, alias: Alias) -> None:
        roots = self._roots.get(torch_seam.storage_key(tensor), ())
        if len(roots) < 2:
            return
        span = _span(alias.root.value.shape, alias.root.layout)
        for root in roots:
            other = _span(root.value.shape, root.layout)
            if root is not alias.root and span[0] < other[1] and other[0] < span[1]:
                raise CaptureError(
                    "a write to memory that two inputs share",
                    where=self.site,
                    values=f"%{alias.root.value.name} and %{root.value.name}",
                    why="a Graph's inputs are independent of one another, so the write would be seen through one only",
                    help="pass one tensor and take views of it inside, or pass copies",
                )

    def _computed_dtypes(self, form: FunctionalForm, args: Any, kwargs: Any, written: list[DType]) -> list[DType]:
        """The dtypes in which the functional form returns the new contents, before they are converted to those of
        the written tensors: asked of PyTorch's meta kernels, once for each combination of operand dtypes."""
        key = (form.op, _signature(args), _signature(kwargs))
        known = _COMPUTED.get(key)
        if known is None:
            known = _COMPUTED[key] = _ask_meta(form, args, kwargs)
        return written if known is None else list(known)

    # -- names, dtypes, shapes, nodes --------------------------------------------------------------------------

    def _emit(self, op: str, args: Any, kwargs: Any, dtype: DType, shape: tuple[int, ...]) -> Value:
        value = Value(self._node_name(op.split(".")[1].strip("_")), dtype, shape)
        self._records.append((op, args, kwargs, (value,), self._position))
        return value

    def _node_name(self, stem: str) -> str:
        name = f"{stem}_{len(self._names)}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _input_name(self, path: str) -> str:
        stem = "".join(c if c.isalnum() and c.isascii() else "_" for c in path).strip("_") or "input"
        if stem[0].isdigit():
            stem = f"_{stem}"
        name, count = stem, 1
        while name in self._names:
            count += 1
            name = f"{stem}_{count}"
        self._names.add(name)
        return name

    def _shape(self, tensor: torch.Tensor) -> tuple[int, ...]:
        shape = tuple(tensor.shape)
        for extent in shape:
            if type(extent) is not int:
                self._encode(extent)
        return shape

    def _dtype(self, tensor: torch.Tensor) -> DType:
        dtype = self._dtypes.get(tensor.dtype)
        if dtype is None:
            try:
                dtype = self._dtypes[tensor.dtype] = dtypes.of(tensor.dtype)
            except KeyError:
                raise UnsupportedError(
                    f"a tensor of dtype {tensor.dtype}", where=self.site, why="truecast has no such dtype"
                ) from None
        return dtype

    @property
    def failed_at(self) -> Any:
        """The site of the operation that raised, or of the last one."""
        return (self.failed or self._position).site()

    def graph(self, name: str, results: list[Value | None], mutations: list[Output] | None = None) -> Graph:
        """The Graph of what was recorded so far: inputs sorted by kind, `results`, then mutations of inputs."""
        order = {"parameter": 0, "buffer": 1, "constant": 2, "scalar": 3, "input": 4}
        entries = sorted(self.inputs, key=lambda e: order[e.kind])
        replaced = {o.target for o in mutations or ()}
        written = [e for e in self.inputs if e.alias.value is not e.value and e.value.name not in replaced]
        mutated = [Output(e.alias.value, "mutation", e.value.name) for e in written]
        nodes = tuple(
            Node(op, args, kwargs, outputs, position.site()) for op, args, kwargs, outputs, position in self._records
        )
        inputs = tuple(Input(e.value, e.kind, e.path) for e in entries)
        return Graph(name, inputs, nodes, (*(Output(v) for v in results), *mutated, *(mutations or ())))

    def close(self) -> None:
        """Lets go of the program's memory; the tape can't record any more."""
        torch_seam.release_storages(self._held)
        self._held = []
        self._known.clear()
        self._roots.clear()


# -- writes whose new contents are plainer than PyTorch's functional form -----------------------------------------


def _copied(tape: Tape, target: Value, args: tuple[Argument, ...]) -> Value:
    source = args[1]
    if source.dtype is not target.dtype:
        source = tape._emit("aten._to_copy.default", (source,), (("dtype", target.dtype),), target.dtype, source.shape)
    return _expanded(tape, target, source)


def _expanded(tape: Tape, target: Value, source: Value) -> Value:
    if source.shape == target.shape:
        return source
    return tape._emit("aten.expand.default", (source, target.shape), (), target.dtype, target.shape)


def _filled(tape: Tape, target: Value, args: tuple[Argument, ...]) -> Value:
    if isinstance(args[1], Value):
        return _copied(tape, target, args)
    return tape._emit(
        "aten.full.default", (target.shape, args[1]), (("dtype", target.dtype),), target.dtype, target.shape
    )


def _zeroed(tape: Tape, target: Value, args: tuple[Argument, ...]) -> Value:
    zero = False if target.dtype.category == "bool" else 0 if target.dtype.category == "integral" else 0.0
    return _filled(tape, target, (target, zero))


_DIRECT: dict[str, Callable[[Tape, Value, tuple[Argument, ...]], Value]] = {
    "copy_": _copied,
    "fill_": _filled,
    "zero_": _zeroed,
}

_SAME = frozenset((int, float, bool, str, type(None), complex))
_TOKENS = frozenset((torch.device, torch.layout, torch.memory_format))
_COMPUTED: dict[Any, tuple[DType, ...] | None] = {}


def _signature(argument: Any) -> Any:
    """What decides result dtypes: dtypes, whether a tensor has dimensions, types of numbers, dtype arguments."""
    if isinstance(argument, Value):
        return (argument.dtype, bool(argument.shape))
    if isinstance(argument, tuple):
        return tuple(_signature(a) for a in argument)
    return argument if isinstance(argument, DType | str) else type(argument)


def _ask_meta(form: FunctionalForm, args: Any, kwargs: Any) -> tuple[DType, ...] | None:
    """None where PyTorch has no meta kernel: such operations (random fills) return the dtype they are given."""

    def meta(argument: Any) -> Any:
        if isinstance(argument, Value):
            return torch.empty(argument.shape, dtype=dtypes.torch_dtype(argument.dtype), device="meta")
        if isinstance(argument, tuple):
            return [meta(a) for a in argument]
        return dtypes.torch_dtype(argument) if isinstance(argument, DType) else argument

    with torch_seam.without_modes():
        try:
            given = {k: meta(v) for k, v in kwargs if not isinstance(v, Token)}
            result = overload(form.op)(*map(meta, args), **given)
        except NotImplementedError:
            return None
    leaves = _flat(result) if isinstance(result, list | tuple) else [result]
    return tuple(dtypes.of(t.dtype) for t in leaves[form.first_written :])


def _layout(tensor: torch.Tensor) -> tuple[tuple[int, ...], int] | None:
    if tensor.is_contiguous() and tensor.storage_offset() == 0:
        return None
    return tuple(tensor.stride()), tensor.storage_offset()


def _span(shape: tuple[int, ...], layout: tuple[tuple[int, ...], int] | None) -> tuple[int, int]:
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


def _contains(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _tensors(argument: Any) -> list[torch.Tensor]:
    if isinstance(argument, torch.Tensor):
        return [argument]
    return [t for t in argument if t is not None] if isinstance(argument, list | tuple) else []


def _flat(result: Any) -> list[Any]:
    leaves: list[Any] = []
    for item in result:
        if isinstance(item, list | tuple):
            leaves += item
        elif item is None or isinstance(item, torch.Tensor):
            leaves.append(item)
    return leaves


_PLAIN: dict[type, bool] = {torch.Tensor: True, torch.nn.Parameter: True}


def _is_plain(cls: type) -> bool:
    plain = _PLAIN.get(cls)
    if plain is None:
        own = getattr(cls, "__torch_dispatch__", None)
        plain = _PLAIN[cls] = (
            own is None or own is torch._C._disabled_torch_dispatch_impl or own is torch.Tensor.__torch_dispatch__
        )
    return plain

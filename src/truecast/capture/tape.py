"""The tape: a dispatch mode that writes every ATen operation of a program down as a functional Graph.

It sees operations below autograd, so a backward pass, an optimizer step and torch.func transforms are on it like
anything else. The program's tensors, real or fake, stay what they are; `Memory` knows for each of them an `Alias`,
and thus the Value it holds now. With a fake mode, real tensors that the program owns (parameters, captured
constants) are never touched: the operations run on their twins.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import torch

from truecast import dtypes
from truecast.capture import torch_export, torch_fake, torch_seam
from truecast.capture.aliasing import Step, memory_order, read, single_step, write
from truecast.capture.contents import Contents, by_position, run
from truecast.capture.functional import HIDDEN_WRITES, functional_form
from truecast.capture.memory import Memory
from truecast.capture.overloads import Overload, learn
from truecast.capture.position import Position, Tracker
from truecast.capture.shapes import Shapes
from truecast.capture.signature import casts_for, computed_dtypes, flat, violation
from truecast.capture.strides import FACTORED_BY_STRIDES, as_if_contiguous
from truecast.capture.writes import DIRECT
from truecast.dtypes import DType
from truecast.errors import CaptureError, UnsupportedError
from truecast.graph import Argument, Graph, Input, InputKind, Node, Output, Token, Value, values_in
from truecast.ops.contracts import Violation
from truecast.ops.schema import schema
from truecast.sites import Site

# What happens where dtypes break an operation's contract: PyTorch's exception, a cast to the dtype that the
# contract follows (law N12; not where PyTorch checks before it dispatches: a convolution's bias, attention), or
# nothing: the node is recorded as the fake tensors let it pass.
OnViolation = Literal["raise", "cast", "keep"]

Kwargs = tuple[tuple[str, Argument], ...]
Record = tuple[str, tuple[Argument, ...], Kwargs, tuple[Value | None, ...], Position]
_INPUT_ORDER: dict[InputKind, int] = {"parameter": 0, "buffer": 1, "constant": 2, "scalar": 3, "input": 4}


class Tape(torch_seam.TorchDispatchMode):
    """Records what runs while it is active; recorder.py composes it.

    fake_mode: runs the operations on fake tensors of this mode. unknown: the kind of input that a tensor becomes
    which neither a module owns nor the caller declared.
    """

    supports_higher_order_operators = True  # to refuse them in truecast's words

    def __init__(
        self,
        *,
        fake_mode: torch_fake.FakeTensorMode | None = None,
        unknown: InputKind = "constant",
        on_violation: OnViolation = "raise",
    ) -> None:
        super().__init__()
        self.tracker = Tracker()
        self.memory = Memory(fake_mode, self.emit, self._identify, self._input_name, lambda: self.site)
        self.reads: list[Position] = []  # where the program looked at a tensor's contents (item, bool)
        self._shapes = None if fake_mode is None else Shapes(fake_mode)
        self._unknown: InputKind = unknown
        self._process = os.getpid()
        self._on_violation = on_violation
        # Real tensors are PyTorch's to refuse, unless the recording is to go on.
        self._checks_real = fake_mode is not None or on_violation == "cast"
        self._records: list[Record] = []
        self._position = Position(None, 0, "", "forward")
        self._names: set[str] = set()
        self._contents = Contents(self._records, self.memory.literal)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch would wrap the handler: a microsecond a call, and an import of seconds; see the end of the file."""
        return False

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is a process that the program forked: a loader's worker computes as it would without."""
        return os.getpid() != self._process

    @property
    def site(self) -> Site:
        """Where the operation is that is being recorded, or that raised."""
        return self._position.site()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for cls in types:
            is_whole = cls is torch_fake.FakeTensor or getattr(cls, "is_of_a_device", False)
            if not is_whole and not torch_seam.is_plain_tensor_class(cls):
                return NotImplemented  # a subclass with its own dispatch: the tape sees what it does inside
        kwargs = kwargs or {}
        if self.is_elsewhere:
            return func(*args, **kwargs)
        op = learn(func)
        if op.role == "query" or (op.role == "identity" and not self.memory.holds(args[0])):
            return func(
                *args, **kwargs
            )  # saving a tensor for backward detaches it, where an exception ends the process
        self._position = self.tracker.here()
        if op.role == "composite":
            with self:
                return func.decompose(*args, **kwargs)
        self.memory.twins.clear()
        if op.role == "rebind" and self._unknown == "input" and any(isinstance(a, torch.UntypedStorage) for a in args):
            result = self._execute(func, args, kwargs)  # memory from outside, a file's or another process's
            if self.memory.knows(args[0]):
                self.memory.drop(args[0])
            return result
        if op.role == "constant":
            return self._record_constant(func, args[0])
        node_args, node_kwargs = self._encode(args), tuple([(k, self._encode(v)) for k, v in kwargs.items()])
        casts: dict[str, DType] = {}
        if op.row is not None and op.row.contracts and (self._checks_real or torch_fake.FakeTensor in types):
            broken = violation(op.name, op.row, node_args, node_kwargs)
            if broken is not None and self._on_violation == "raise":
                raise self._noted(broken.raised())
            if broken is not None and self._on_violation == "cast":
                self._note_refusal(op, broken, node_args, node_kwargs)
                casts = casts_for(op.name, op.row, node_args, node_kwargs)
                if not casts:
                    raise self._noted(broken.raised())
        given, named = self._cast(op, args, kwargs, casts) if casts else (args, kwargs)
        try:
            result = self._execute(func, given, named, remembered=op.role == "plain")
        except torch_fake.DATA_DEPENDENT:
            known, result = self._answer(func, op, args, node_args, node_kwargs)
            if not known:
                raise
            return result
        if op.role == "plain":
            if op.name in FACTORED_BY_STRIDES:
                node_args = as_if_contiguous(self.emit, args[0], node_args)
            self._record_plain(op, node_args, node_kwargs, result)
        elif op.role == "view":
            self._record_view(op, args[0], node_args, node_kwargs, result)
        elif op.role == "identity":
            alias = self.memory.alias_of(args[0])
            self.memory.remember(result, alias.view(Step(op.name), read(alias, self.emit)))
        elif op.role == "write":
            return self._record_write(op, args, kwargs, node_args, node_kwargs, result)
        else:
            self._record_change(op, args, node_args, node_kwargs)
            return args[0]
        return result

    def _answer(self, func: Any, op: Overload, args: Any, node_args: Any, kwargs: Kwargs) -> tuple[bool, Any]:
        """Whether an operation that asks for contents asks for what the program alone decides, and what it returns."""
        if self._shapes is None:
            return False, None
        known = self._contents.of([*values_in(node_args), *values_in(tuple([v for _, v in kwargs]))])
        if known is not None:
            result = run(op.name, node_args, kwargs, known)
            if isinstance(result, torch.Tensor):
                return True, self._known_tensor(result)
            if isinstance(result, list | tuple):
                return True, type(result)([self._known_tensor(t) for t in result])
            self.reads.append(self._position)
            return True, result
        selection = by_position(func, args, self._contents_of, self._known_tensor)
        if selection is None:
            return False, None
        with self:
            return True, selection[0](*selection[1])

    def _contents_of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        value = self.memory.read(tensor)
        known = self._contents.of([value])
        return None if known is None else known[value.name]

    def _known_tensor(self, real: torch.Tensor) -> torch.Tensor:
        """A constant of the Graph."""
        assert self._shapes is not None
        fake = torch_fake.fake_like(real, self._shapes.mode)
        self.memory.add(fake, self.memory.add_contents(real, "constant"))
        return fake

    def _execute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], remembered: bool = False) -> Any:
        if self.memory.twins:
            args = self._with_twins(args)
            kwargs = {k: self._with_twins(v) for k, v in kwargs.items()}
        try:
            if self._shapes is None:
                return func(*args, **kwargs)
            func = torch_fake.fake_rule(func) or func
            return self._shapes.run(func, args, kwargs) if remembered else func(*args, **kwargs)
        except Exception as error:
            raise self._noted(error)  # noqa: B904  (the same exception)

    def _noted(self, error: Exception) -> Exception:
        """`error` with a note (PEP 678) of the source line; a backward operation's is that of its forward one."""
        site = self.site
        place = f"{site.file}:{site.line}: {site.expression}" if site.file else "no line of the program's own"
        error.add_note(f"at {place}" + f" ({site.phase})" * (site.phase != "forward"))
        return error

    def _note_refusal(self, op: Overload, broken: Violation, args: Any, kwargs: Kwargs) -> None:
        """Called with each operation that refuses its operands' dtypes before it runs on cast ones."""

    def _cast(self, op: Overload, args: Any, kwargs: Any, casts: dict[str, DType]) -> tuple[Any, Any]:
        """The arguments that the operation runs on under on_mismatch = "cast". The Graph keeps the program's own: the
        casts are the Plan's (law N12)."""

        def cast(name: str, argument: Any) -> Any:
            if name not in casts or argument is None:
                return argument
            if isinstance(argument, list | tuple):
                return [cast(name, a) for a in argument]
            return torch.ops.aten._to_copy.default(self._with_twins(argument), dtype=dtypes.torch_dtype(casts[name]))

        given = [cast(p.name, a) for p, a in zip(schema(op.name).parameters, args, strict=False)]
        return tuple(given), {k: cast(k, v) for k, v in kwargs.items()}

    def _with_twins(self, argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return self.memory.twins.get(id(argument), argument)
        if isinstance(argument, list | tuple) and not isinstance(argument, torch.Size):
            return type(argument)(self._with_twins(a) for a in argument)
        return argument

    def _encode(self, argument: Any) -> Argument:
        kind = type(argument)
        if kind in _SAME:
            return argument
        if isinstance(argument, torch.Tensor):
            return self.memory.read(argument)
        if isinstance(argument, list | tuple):
            return tuple([self._encode(a) for a in argument])
        if kind is torch.dtype:
            return self.memory.known_dtype(argument)
        if kind in _TOKENS:
            return Token(str(argument))
        if issubclass(kind, torch.Generator):
            return Token("torch.Generator")
        if kind is torch.UntypedStorage:  # set_ gives a tensor other memory: a copied module's
            return Token("torch.UntypedStorage")
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

    # -- operations that make tensors --------------------------------------------------------------------------

    def _record_plain(self, op: Overload, args: Any, kwargs: Kwargs, result: Any) -> None:
        if isinstance(result, torch.Tensor):
            leaves: list[Any] = [result]
        elif isinstance(result, list | tuple):
            leaves = flat(result)
        else:
            if result is not None:  # a number or a truth value: the program goes on with it, the Graph does not
                self.reads.append(self._position)
            return
        outputs = [t if t is None else self._fresh(op.stem, t) for t in leaves]
        self._records.append((op.name, args, kwargs, tuple(outputs), self._position))
        for tensor, value in zip(leaves, outputs, strict=True):
            if value is not None:
                self._bind(tensor, value)

    def _fresh(self, stem: str, tensor: torch.Tensor) -> Value:
        return Value(self._node_name(stem), self.memory.dtype(tensor), self.memory.shape(tensor))

    def _bind(self, tensor: torch.Tensor, value: Value) -> None:
        """`tensor`, which an operation has just returned, holds `value`."""
        memory = self.memory
        if tensor.layout is not torch.strided:
            raise UnsupportedError(
                f"a result of layout {tensor.layout}", where=self.site, why="a Graph has dense tensors of numbers only"
            )
        if not memory.add(tensor, value) and not memory.knows(tensor):
            memory.alias_of(tensor)  # an operation that returned its argument's memory without saying so

    def _record_view(self, op: Overload, viewed: torch.Tensor, args: Any, kwargs: Kwargs, result: Any) -> None:
        parent = self.memory.alias_of(viewed)
        leaves = [result] if isinstance(result, torch.Tensor) else list(result)
        if op.name == "aten.as_strided.default":  # speaks of the memory, not of the tensor that it is called on
            dense = memory_order(parent, self.emit)
            offset = dict(kwargs).get("storage_offset", args[3] if len(args) > 3 else None)
            offset = viewed.storage_offset() if offset is None else offset
            offset -= parent.root.layout[1] if parent.root.layout else 0
            parent, args, kwargs = dense, (read(dense, self.emit), args[1], args[2], offset), ()
        outputs = tuple([self._fresh(op.stem, t) for t in leaves])
        self._records.append((op.name, args, kwargs, outputs, self._position))
        for index, (tensor, value) in enumerate(zip(leaves, outputs, strict=True)):
            self.memory.remember(tensor, parent.view(single_step(op.name, args, kwargs, index), value))

    def _record_constant(self, func: Any, tensor: torch.Tensor) -> Any:
        """`torch.tensor(2.0)`: one number becomes a literal of the Graph, several an input."""
        memory = self.memory
        if memory.knows(tensor):
            value = memory.read(tensor)
        elif tensor.numel() == 1 and not isinstance(tensor, torch_fake.FakeTensor):
            with torch_seam.without_modes():
                number = tensor.item()
            dtype, shape = memory.dtype(tensor), memory.shape(tensor)
            value = self.emit("aten.full.default", (shape, number), (("dtype", dtype),), dtype, shape)
        else:
            value = memory.add_contents(tensor, self._unknown)
        memory.twins.clear()
        result = self._execute(func, (tensor,), {})
        memory.add(result, value)
        return result

    # -- operations that write ---------------------------------------------------------------------------------

    def _record_change(self, op: Overload, args: Any, node_args: Any, kwargs: Kwargs) -> None:
        """An operation that changes what its argument is, not (only) what its memory holds."""
        tensor, memory = args[0], self.memory
        alias = memory.alias_of(tensor)
        name, variant = op.name.split(".")[1:]
        form = functional_form(op.name) if op.role == "inplace_view" else None
        if name == "detach_":
            return
        if name == "as_strided_":
            raise UnsupportedError(op.name, where=self.site, help="use as_strided, which makes a new tensor")
        if form is not None:
            value = self.emit(form.op, node_args, kwargs, memory.dtype(tensor), memory.shape_now(tensor))
            child = alias.view(Step(form.op, node_args[1:], kwargs), value)
            memory.remember(tensor, child, memory.twins.get(id(tensor)))
        elif name == "set_" and variant == "source_Tensor":
            memory.remember(tensor, memory.alias_of(args[1]), memory.twins.get(id(args[1])))
        elif name.startswith("resize"):
            shape, held = memory.shape_now(tensor), alias.value
            if shape == held.shape:
                return
            if held.size:
                raise UnsupportedError(
                    f"{op.name} of a tensor with elements",
                    where=self.site,
                    values=f"{held} to {list(shape)}",
                    why="it exposes memory, which a Graph does not have",
                    help="make a new tensor, or index the old one",
                )
            dtype = (("dtype", held.dtype),)
            memory.rebind(tensor, self.emit("aten.empty.memory_format", (shape,), dtype, held.dtype, shape))
        else:
            memory.drop(tensor)

    def _record_write(
        self, op: Overload, args: Any, kwargs: Any, node_args: Any, node_kwargs: Kwargs, result: Any
    ) -> Any:
        targets = op.targets(args, kwargs)
        direct = DIRECT.get(op.name.rsplit(".", 1)[0])
        if direct is not None:
            self._store(targets[0], direct(self.emit, self.memory.alias_of(targets[0]).value, node_args))
            return targets[0]
        if op.name in HIDDEN_WRITES and (not targets or not args[5]):  # batch norm: no statistics, or not training
            self._record_plain(op, node_args, node_kwargs, result)
            return result
        form = op.form
        if form is None:
            raise UnsupportedError(
                f"{op.name} has no functional form",
                where=self.site,
                why="a Graph has no writes; PyTorch offers no operation that returns what this one writes",
                help="write it with operations that return new tensors",
            )
        returned = op.without_written(result)
        node_args, node_kwargs = form.arguments(op.name, node_args, node_kwargs)
        made = [r if r is None else self._fresh(op.stem, r) for r in returned]
        computed = computed_dtypes(form, node_args, node_kwargs) or [self.memory.dtype(t) for t in targets]
        contents = [
            Value(self._node_name(op.stem), dtype, self.memory.shape_now(t))
            for t, dtype in zip(targets, computed, strict=True)
        ]
        self._records.append((form.op, node_args, node_kwargs, (*made, *contents), self._position))
        for tensor, value in zip(returned, made, strict=True):
            if value is not None:
                self._bind(tensor, value)
        for tensor, value in zip(targets, contents, strict=True):
            self._store(tensor, value)
        return op.with_originals(result, targets)

    def _store(self, tensor: torch.Tensor, value: Value) -> None:
        """Writes `value` to the tensor's memory, in the tensor's dtype; an `out` of another shape is made anew."""
        alias = self.memory.alias_of(tensor)
        held = alias.value
        if value.dtype is not held.dtype:
            value = self.emit("aten._to_copy.default", (value,), (("dtype", held.dtype),), held.dtype, value.shape)
        if value.shape != held.shape:
            self.memory.rebind(tensor, value)
            return
        self.memory.refuse_shared(tensor, alias)
        write(alias, value, self.emit)

    # -- nodes and names ---------------------------------------------------------------------------------------

    def emit(self, op: str, args: tuple[Argument, ...], kwargs: Kwargs, dtype: DType, shape: tuple[int, ...]) -> Value:
        """Records one node with one output at the current position."""
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

    def _identify(self, tensor: torch.Tensor) -> tuple[InputKind, str]:
        known = self.tracker.tensors.get(id(tensor))
        if known is not None:
            return known
        return "parameter" if isinstance(tensor, torch.nn.Parameter) else self._unknown, ""

    def graph(self, name: str, results: list[Value | None], mutations: list[Output] | None = None) -> Graph:
        """The Graph of what was recorded so far: inputs sorted by kind, `results`, then mutations of inputs."""
        inputs = self.memory.inputs
        entries = sorted(inputs, key=lambda e: _INPUT_ORDER[e.kind])
        replaced = {o.target for o in mutations or ()}
        written = [e for e in inputs if e.alias.value is not e.value and e.value.name not in replaced]
        outputs = [*(Output(v) for v in results), *(Output(e.alias.value, "mutation", e.value.name) for e in written)]
        nodes = tuple([Node(op, a, k, values, position.site()) for op, a, k, values, position in self._records])
        return Graph(
            name, tuple(Input(e.value, e.kind, e.path) for e in entries), nodes, (*outputs, *(mutations or ()))
        )


_SAME = frozenset((int, float, bool, str, type(None), complex))
_TOKENS = frozenset((torch.device, torch.layout, torch.memory_format))

torch_export.hide_from_dynamo(Tape.__torch_dispatch__)

"""The hot path: what happens to an operation on the device.

Each overload has one handler, chosen once from its schema and the ops table: record it, record it as a view,
record its functional form and write the result back, decompose it, or leave the device for the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from truecast.capture import aliasing, decompose, torch_seam
from truecast.capture.aliasing import Alias, memory_order, single_step
from truecast.capture.device.inference import DataDependent, infer
from truecast.capture.device.state import state
from truecast.capture.device.tensor import PjrtTensor
from truecast.capture.device.values import Lazy, Meta, Record, ScalarSlot, Slot, Spec
from truecast.capture.functional import FunctionalForm, functional_form, is_view, writes
from truecast.ops import lookup
from truecast.ops.schema import overload, schema

aten = torch.ops.aten
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_handlers: dict[int, Handler] = {}
_specs: dict[tuple[Any, ...], Spec | None] = {}


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    handler = _handlers.get(id(func))  # an overload lives as long as the process, and its own hash is slow
    if handler is None:
        handler = _handlers[id(func)] = _handler_for(func)
    return handler(func, args, kwargs)


def lazy_of(tensor: PjrtTensor) -> Lazy:
    """The value that the tensor holds now; records the view operations again if its memory was written since."""
    alias = tensor._alias
    value: Lazy = alias.value
    if alias.parent is None or (not value.lost and alias.version == alias.root.version):
        return value
    link: Alias | None = alias
    while link is not None and link.parent is not None and link.value.lost:
        link.version = -1
        link = link.parent
    return aliasing.read(alias, emit)


def _record(spec: Spec, operands: tuple[Lazy, ...], scalars: tuple[Any, ...]) -> tuple[Lazy | None, ...]:
    made = Record(spec, operands, scalars, state.tracker.here())
    outputs = made.outputs
    state.tape.append(made)
    return outputs


def emit(
    op: str, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...], dtype: Any, shape: tuple[int, ...]
) -> Lazy:
    """One functional operation among Lazy values and literals: what aliasing.py asks for."""
    operands: list[Lazy] = []
    key: list[Any] = [op, kwargs, dtype, shape]

    def slot(argument: Any) -> Any:
        if type(argument) is Lazy:
            operands.append(argument)
            key.append((argument.dtype, argument.shape))
            return Slot(len(operands) - 1)
        key.append(argument)
        return argument

    template = tuple(slot(a) for a in args)
    known = tuple(key)
    spec = _specs.get(known)
    if spec is None:
        meta = Meta.of(dtype, tuple(shape), dense_strides(tuple(shape)))
        spec = _specs[known] = Spec(op, template, kwargs, (meta,), ())
    result = _record(spec, tuple(operands), ())[0]
    assert result is not None
    return result


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


class _Call:
    """One call being recorded: what its Spec is found by, its operands and its numbers."""

    __slots__ = ("key", "metas", "numbers", "operands")

    def __init__(self) -> None:
        self.key: list[Any] = []
        self.metas: list[Meta] = []
        self.operands: list[Lazy] = []
        self.numbers: list[Any] = []

    def take(self, argument: Any, liftable: bool) -> None:
        kind = type(argument)
        if kind is PjrtTensor:
            self.key.append(argument._meta)
            self.operands.append(lazy_of(argument))
        elif liftable and kind in _NUMBERS:
            self.key.append(kind)
            self.numbers.append(argument)
        elif kind is list or kind is tuple:
            self.key.append(len(argument))
            for item in argument:
                self.take(item, liftable)
        elif isinstance(argument, torch.Tensor):
            self.take(_brought(argument), False)
        elif kind is float:  # 0.0 and -0.0 are equal keys of different meaning
            self.key.append((kind, argument.hex()))
        else:  # 1, 1.0 and True are equal keys of different meaning
            self.key.append((kind, argument))


_NUMBERS = frozenset((bool, int, float, complex))


class _Template:
    """The arguments of a call with Slots for tensors and liftable numbers, in the order that _Call takes them."""

    def __init__(self) -> None:
        self.metas: list[Meta] = []
        self.types: list[type] = []

    def of(self, argument: Any, liftable: bool) -> Any:
        if isinstance(argument, torch.Tensor):
            self.metas.append(_brought(argument)._meta)
            return Slot(len(self.metas) - 1)
        if liftable and type(argument) in _NUMBERS:
            self.types.append(type(argument))
            return ScalarSlot(len(self.types) - 1)
        if isinstance(argument, list | tuple):
            return tuple(self.of(item, liftable) for item in argument)
        return argument


def _brought(tensor: torch.Tensor) -> PjrtTensor:
    """A CPU tensor among operands of the device: only a 0-dim one may be, as on every PyTorch device."""
    if isinstance(tensor, PjrtTensor):
        return tensor
    if tensor.device.type == "cpu" and tensor.dim() == 0:
        return state.host.upload(tensor)
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {state.device} and {tensor.device}!"
    )


def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Spec, tuple[Lazy | None, ...]] | None:
    """Records a functional operation; None if only the CPU can run it (its shapes depend on values, say)."""
    known = _known.get(id(func))
    if known is None:
        known = _known[id(func)] = _Known(_liftable(func))
    liftable = known.liftable
    taken = _Call()
    key, operands = taken.key, taken.operands
    for index, argument in enumerate(args):
        if type(argument) is PjrtTensor:
            key.append(argument._meta)
            operands.append(lazy_of(argument))
        else:
            taken.take(argument, index in liftable)
    if kwargs:
        for name, argument in kwargs.items():
            if name not in _PLACEMENT:
                key.append(name)
                taken.take(argument, name in liftable)
    found = tuple(key)
    spec = known.specs.get(found, _UNSEEN)
    if spec is _UNSEEN:
        spec = known.specs[found] = _new_spec(func, args, kwargs, liftable, tuple(taken.numbers))
    if spec is None:
        return None
    return spec, _record(spec, tuple(operands), tuple(taken.numbers))


class _Known:
    """What is known of an overload: which arguments may be lifted, and its Specs by call."""

    __slots__ = ("liftable", "specs")

    def __init__(self, liftable: frozenset[Any]) -> None:
        self.liftable = liftable
        self.specs: dict[tuple[Any, ...], Spec | None] = {}


_known: dict[int, _Known] = {}
_UNSEEN: Any = object()
_PLACEMENT = frozenset(("device", "layout", "pin_memory", "non_blocking", "memory_format"))


def _new_spec(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], liftable: frozenset[Any], numbers: tuple[Any, ...]
) -> Spec | None:
    shape = _Template()
    template = tuple(shape.of(a, i in liftable) for i, a in enumerate(args))
    named = tuple((name, shape.of(a, name in liftable)) for name, a in kwargs.items() if name not in _PLACEMENT)
    try:
        keywords = {name: _with_numbers(a, numbers) for name, a in named}
        metas = infer(func, _with_numbers(template, numbers), keywords, tuple(shape.metas))
    except DataDependent:
        return None
    spec = Spec(op_name(func), template, named, tuple(metas), tuple(shape.types))
    return spec if state.host.supports(spec, shape.metas, numbers) else None


def _with_numbers(argument: Any, numbers: tuple[Any, ...]) -> Any:
    if type(argument) is ScalarSlot:
        return numbers[argument.index]
    if isinstance(argument, tuple):
        return tuple(_with_numbers(a, numbers) for a in argument)
    return argument


def op_name(func: Any) -> str:
    return f"{func.namespace}.{func._opname}.{func._overloadname}"


def _liftable(func: Any) -> frozenset[Any]:
    """Positions and names of arguments that are numbers to compute with, not shapes or flags."""
    op = op_name(func)
    row = lookup(op)
    members: set[Any] = set()
    if row is not None and row.kind == "elementwise":
        for index, parameter in enumerate(schema(op).parameters):
            if parameter.cls == "scalar" and (row.numeric is None or parameter.name in row.numeric):
                members |= {parameter.name} if parameter.keyword_only else {index, parameter.name}
    return frozenset(members)


def wrap(spec: Spec, values: tuple[Lazy | None, ...], func: Any) -> Any:
    """Fresh tensors for the results of a functional operation, as the schema returns them."""
    made = [None if v is None else _fresh(m, v) for m, v in zip(spec.outputs, values, strict=True)]
    return _shaped(func, made)


def _fresh(meta: Meta | None, value: Lazy) -> PjrtTensor:
    assert meta is not None
    layout = None if meta.offset == 0 and meta.is_contiguous else (meta.strides, meta.offset)
    return PjrtTensor.make(meta, state.tape.root(value, layout))


def _shaped(func: Any, made: list[Any]) -> Any:
    returns = func._schema.returns
    if len(returns) == 1:
        return made if str(returns[0].type).startswith("List") else made[0]
    return tuple(made) if returns else None


# ---- one handler a class of overloads ------------------------------------------------------------------------


def _functional(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    recorded = call(func, args, kwargs)
    if recorded is None:
        return state.host.on_cpu(func, args, kwargs)
    return wrap(*recorded, func)


def _view(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    viewed: PjrtTensor = args[0]
    alias = viewed._alias
    if func is aten.as_strided.default:
        alias = memory_order(alias, emit)
        args, kwargs = (
            (
                _fresh_view(viewed, alias),
                args[1],
                args[2],
                args[3] if len(args) > 3 and args[3] is not None else viewed._meta.offset,
            ),
            {},
        )
    recorded = call(func, args, kwargs)
    if recorded is None:
        return state.host.on_cpu(func, args, kwargs)
    spec, values = recorded
    rest = _with_numbers(spec.args[1:], ())
    made = []
    for index, (meta, value) in enumerate(zip(spec.outputs, values, strict=True)):
        assert meta is not None and value is not None
        step = single_step(spec.op, (value_of(alias), *rest), spec.kwargs, index)
        made.append(PjrtTensor.make(meta, alias.view(step, value)))
    return _shaped(func, made)


def value_of(alias: Alias) -> Any:
    return alias.value


def _fresh_view(tensor: PjrtTensor, alias: Alias) -> PjrtTensor:
    """`tensor`'s whole memory, in memory order, as a tensor: what as_strided starts from."""
    if alias is tensor._alias:
        return tensor
    shape = tuple(alias.value.shape)
    return PjrtTensor.make(Meta.of(tensor._meta.dtype, shape, dense_strides(shape)), alias)


def _writer(form: FunctionalForm, parameters: tuple[str, ...]) -> Handler:
    """The handler of an overload that writes its arguments, through its functional form."""
    target = overload(form.op)

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = dict(zip(parameters, args, strict=False)) | kwargs
        written = [bound[name] for name in form.written if bound.get(name) is not None]
        for tensor in written:
            if not isinstance(tensor, PjrtTensor):
                return state.host.on_cpu(func, args, kwargs)
        functional_args = args[: sum(1 for p in parameters[: len(args)] if p not in form.dropped)]
        functional_kwargs = {n: a for n, a in kwargs.items() if n not in form.dropped}
        recorded = call(target, functional_args, functional_kwargs)
        if recorded is None:
            return state.host.on_cpu(func, args, kwargs)
        spec, values = recorded
        for tensor, meta, value in zip(
            written, spec.outputs[form.first_written :], values[form.first_written :], strict=True
        ):
            assert meta is not None and value is not None
            write_back(func, tensor, meta, value)
        plain = [
            None if v is None else _fresh(m, v)
            for m, v in zip(spec.outputs[: form.first_written], values[: form.first_written], strict=True)
        ]
        results = plain + written
        returns = func._schema.returns
        if not returns:
            return None
        return results[0] if len(returns) == 1 else tuple(results[: len(returns)])

    return handle


def write_back(func: Any, tensor: PjrtTensor, meta: Meta, value: Lazy) -> None:
    """`value` becomes the tensor's contents, in the tensor's own dtype."""
    have = tensor._meta
    if meta.shape != have.shape:
        if _is_out(func):
            raise RuntimeError(
                f"{op_name(func)}: an out= tensor of shape {list(have.shape)} can't take a result of shape {list(meta.shape)}; "
                "a tensor on the pjrt device can't be resized. Pass an out= tensor of that shape, or none"
            )
        raise RuntimeError(f"output with shape {list(have.shape)} doesn't match the broadcast shape {list(meta.shape)}")
    if meta.dtype is not have.dtype:
        if not torch.can_cast(meta.dtype, have.dtype):
            raise RuntimeError(
                f"result type {_scalar_name(meta.dtype)} can't be cast to the desired output type {_scalar_name(have.dtype)}"
            )
        value = cast(value, have.dtype)
    aliasing.write(tensor._alias, value, emit)


def cast(value: Lazy, dtype: torch.dtype) -> Lazy:
    return emit("aten._to_copy.default", (value,), (("dtype", dtype),), dtype, value.shape)


def _is_out(func: Any) -> bool:
    return any(p.written and p.keyword_only for p in schema(op_name(func)).parameters)


def _scalar_name(dtype: torch.dtype) -> str:
    return {
        "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int",
        "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
    }.get(str(dtype).removeprefix("torch."), str(dtype))  # fmt: skip


def _factory_of(op: str) -> str | None:
    """The overload that makes what a factory's out= form writes: aten.arange.start_step for aten.arange.start_out."""
    form = schema(op).parameters
    if any(p.cls == "tensor" and not p.written for p in form):
        return None
    kept = [(p.name, p.type) for p in form if not p.written and p.name != "generator"]
    packet = getattr(torch.ops.aten, op.split(".")[1])
    for variant in packet.overloads():
        other = schema(f"aten.{op.split('.')[1]}.{variant}").parameters
        own = [(p.name, p.type) for p in other if p.name not in _PLACEMENT and p.name not in ("dtype", "generator")]
        if own == kept and not any(p.written for p in other):
            return f"aten.{op.split('.')[1]}.{variant}"
    return None


def _factory_out(factory: str, parameters: tuple[str, ...]) -> Handler:
    target = overload(factory)

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out: PjrtTensor = kwargs["out"]
        recorded = call(target, args, {"dtype": out._meta.dtype})
        assert recorded is not None, factory
        spec, (value,) = recorded
        meta = spec.outputs[0]
        assert meta is not None and value is not None
        write_back(func, out, meta, value)
        return out

    return handle


def _copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """copy_ within the device, onto it, or off it."""
    target, source = args[0], args[1]
    if not isinstance(target, PjrtTensor):
        with torch_seam.without_modes():
            target.copy_(state.host.download(source))
        return target
    if not isinstance(source, PjrtTensor):
        source = state.host.upload(source)
    value = lazy_of(source)
    shape = target._meta.shape
    if source._meta.dtype is not target._meta.dtype:
        value = cast(value, target._meta.dtype)
    if value.shape != shape:
        torch.broadcast_shapes(value.shape, shape)
        value = emit("aten.expand.default", (value, shape), (), value.dtype, shape)
    elif value is lazy_of(source):
        value = emit("aten.clone.default", (value,), (), value.dtype, shape)
    aliasing.write(target._alias, value, emit)
    return target


def _to_copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source = args[0]
    device = kwargs.get("device")
    if not isinstance(source, PjrtTensor):
        return state.host.upload(source if kwargs.get("dtype") is None else source.to(kwargs["dtype"]))
    if device is None or device.type == state.device.type:
        recorded = call(func, args, {"dtype": kwargs.get("dtype") or source.dtype})
        assert recorded is not None
        return wrap(*recorded, func)
    found = state.host.download(source)
    kept = {n: a for n, a in kwargs.items() if n in ("dtype", "layout", "pin_memory", "memory_format")}
    return func(found, **kept) if kept.get("dtype") not in (None, found.dtype) else found


def _detach(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source: PjrtTensor = args[0]
    return PjrtTensor.make(source._meta, source._alias)


def _item(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return state.host.download(args[0]).item()


def _set(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    target, source = args[0], args[1]
    target._alias, target._meta = source._alias, source._meta
    return target


def _decomposed(function: Callable[..., Any]) -> Handler:
    return lambda func, args, kwargs: function(*args, **kwargs)


def _on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return state.host.on_cpu(func, args, kwargs)


_SPECIAL: dict[Any, Handler] = {
    aten.copy_.default: _copy,
    aten._to_copy.default: _to_copy,
    aten.detach.default: _detach,
    aten.alias.default: _detach,
    aten.lift_fresh.default: _detach,
    aten._local_scalar_dense.default: _item,
    aten.set_.source_Tensor: _set,
}


def _handler_for(func: Any) -> Handler:
    if func in _SPECIAL:
        return _SPECIAL[func]
    op = op_name(func)
    if writes(op):
        form = functional_form(op)
        if form is not None:
            return _writer(form, tuple(p.name for p in schema(op).parameters))
        factory = _factory_of(op)
        if factory is not None:
            return _factory_out(factory, tuple(p.name for p in schema(op).parameters))
        function = torch_seam.composite_explicit(func)
        return _decomposed(function) if function is not None else _on_cpu
    if is_view(op):
        return _view
    function = decompose.definition_of(op)
    if function is not None:
        return _decomposed(function)
    return _functional

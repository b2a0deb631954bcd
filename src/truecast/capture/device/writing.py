"""Operations that write: recorded in their functional form, and the result becomes what the written tensor holds."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch

from truecast.capture import torch_seam
from truecast.capture.device.dispatch import (
    OffDevice,
    Recorder,
    brought,
    cast,
    emit,
    fresh,
    lazy_of,
    op_name,
    write,
)
from truecast.capture.device.making import Handler, functional
from truecast.capture.device.outs import refuse_dtypes
from truecast.capture.device.state import state
from truecast.capture.device.tensor import PjrtTensor
from truecast.capture.device.values import Lazy, Meta
from truecast.capture.device.viewing import resized
from truecast.capture.functional import HIDDEN_WRITES, FunctionalForm
from truecast.ops.schema import overload, schema

aten = torch.ops.aten

# They resize what they write to, as others do their `out`.
_RESIZING = frozenset(("aten.addbmm_.default",))


def writer(func: Any, form: FunctionalForm) -> Handler:
    """The handler of an overload that writes its arguments, through its functional form."""
    name = op_name(func)
    record = Recorder(overload(form.op))
    parameters = schema(name).parameters
    places = [(index, p.name) for index, p in enumerate(parameters) if p.name in form.written]
    kept = sum(1 for p in parameters if not p.keyword_only and p.name not in form.dropped)
    is_out = name in _RESIZING or any(p.written and p.keyword_only for p in parameters)
    needed = _required_positions(form, name)
    returns = len(func._schema.returns)
    pure = functional(func) if name in HIDDEN_WRITES else None  # a batch norm without running statistics writes nothing

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        written: list[Any] = [args[index] if index < len(args) else kwargs.get(name) for index, name in places]
        if len(written) != 1 or type(written[0]) is not PjrtTensor:
            written = [tensor for tensor in _flat(written) if tensor is not None]
            if pure is not None and not written:
                return pure(func, args, kwargs)
            for tensor in written:
                _refuse_other_devices(tensor, args, kwargs)
        given = {n: a for n, a in kwargs.items() if n not in form.dropped} if kwargs else kwargs
        plain = args[:kept]
        if len(plain) < needed:
            plain = (*plain, *[p.default for p in parameters[len(plain) : needed]])
        try:
            spec, values = record(plain, given)
        except OffDevice as off:
            return state.host.on_cpu(func, args, kwargs, off.counted)
        first = form.first_written
        if is_out:
            refuse_dtypes(func, args, kwargs, written, spec.outputs[first:])
        for tensor, meta, value in zip(written, spec.outputs[first:], values[first:], strict=True):
            if meta is not None and value is not None:
                write_back(tensor, meta, value, is_out)
        if not first:
            return None if not returns else written[0] if returns == 1 else tuple(written[:returns])
        made = [
            None if m is None or v is None else fresh(m, v)
            for m, v in zip(spec.outputs[:first], values[:first], strict=True)
        ]
        results = [*made, *written][:returns]
        return results[0] if returns == 1 else tuple(results)

    return handle


def _flat(nest: Iterable[Any]) -> list[Any]:
    """The members of lists and tuples in it in their places, all else as it is."""
    return [leaf for part in nest for leaf in (_flat(part) if isinstance(part, list | tuple) else (part,))]


def written_through(func: Any, target: Any, written_names: frozenset[str], is_out: bool) -> Handler:
    """An overload that writes what `target` returns, which takes the same arguments: `_foreach_mul_` through
    `_foreach_mul`, or, with is_out, the same arguments but those."""
    names = tuple([p.name for p in schema(op_name(func)).parameters])
    returns = len(func._schema.returns)

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = dict(zip(names, args, strict=False)) | kwargs
        written = _flat([bound[n] for n in names if n in written_names])
        for tensor in written:
            _refuse_other_devices(tensor, args, kwargs)
        result = target(*args, **{n: a for n, a in kwargs.items() if not (is_out and n in written_names)})
        if is_out:
            refuse_dtypes(func, args, kwargs, written, [made._meta for made in _flat([result])])
        for tensor, made in zip(written, _flat([result]), strict=True):
            write_back(tensor, made._meta, lazy_of(made), is_out)
        return None if not returns else written[0] if returns == 1 else tuple(written)

    return handle


def _required_positions(form: FunctionalForm, writing: str) -> int:
    """How many positional arguments the functional form needs that the writing one has defaults for."""
    args, _ = form.arguments(writing, (), ())
    return len(args)


def _refuse_other_devices(written: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for tensor in written if isinstance(written, list | tuple) else (written,):
        if not isinstance(tensor, PjrtTensor):
            if tensor.layout is not torch.strided:
                brought(tensor)  # raises, and says what is wrong with it
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{state.shown} and {tensor.device}!"
            )


def write_back(tensor: PjrtTensor, meta: Meta, value: Lazy, is_out: bool) -> None:
    """`value` becomes the tensor's contents, in the tensor's own dtype. An `out` of another shape is resized."""
    have = tensor._meta
    if have.shares_elements:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    if meta.dtype is not have.dtype:
        if not torch.can_cast(meta.dtype, have.dtype):
            raise RuntimeError(
                f"result type {_scalar_name(meta.dtype)} can't be cast to the desired output type "
                f"{_scalar_name(have.dtype)}"
            )
        value = cast(value, have.dtype)
    if meta.shape != have.shape:
        if not is_out:
            shapes = f"output with shape {list(have.shape)} doesn't match the broadcast shape {list(meta.shape)}"
            raise RuntimeError(shapes)
        if 0 not in have.shape:
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(have.shape)}, which does "
                f"not match the required output shape {list(meta.shape)}. This behavior is deprecated, and in a future "
                "PyTorch release outputs will not be resized unless they have zero elements. You can explicitly reuse "
                "an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
                stacklevel=2,
            )
        if 0 not in have.shape or tensor._alias.parent is None:
            tensor.become(fresh(Meta.dense(have.dtype, meta.shape), value))
            return
        tensor.become(resized(tensor, meta.shape))  # an empty view: what lies behind it is written
    write(tensor, value)


def _scalar_name(dtype: torch.dtype) -> str:
    from truecast import dtypes

    return dtypes.scalar_name(dtypes.of(dtype))


def copy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """copy_ within the device, onto it, or off it."""
    target, source = args[0], args[1]
    if not isinstance(target, PjrtTensor):
        with torch_seam.without_modes():
            target.copy_(state.host.download(source))
        return target
    if not isinstance(source, PjrtTensor):
        source = state.host.upload(source)
    value = lazy_of(source)
    shape, dtype = target._meta.shape, target._meta.dtype
    if value.dtype is not dtype:
        value = cast(value, dtype)
    if value.shape != shape:
        with torch_seam.without_modes():  # raises what PyTorch raises
            torch.empty(shape, device="meta").copy_(torch.empty(value.shape, device="meta"))
        while len(value.shape) > len(shape):
            value = emit("aten.squeeze.dim", (value, 0), (), dtype, value.shape[1:])
        value = emit("aten.expand.default", (value, shape), (), dtype, shape)
    write_back(target, Meta.dense(dtype, shape), value, False)
    return target


def fill(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """fill_ and zero_, which read nothing of the tensor."""
    target: PjrtTensor = args[0]
    number = args[1] if len(args) > 1 else 0
    if isinstance(number, torch.Tensor):
        if number.dim():
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {number.dim()} dimensions."
            )
        return copy(func, (target, number), {})
    meta = Meta.dense(target._meta.dtype, target._meta.shape)
    if not -128 <= _real(number) <= 127:  # no dtype holds less
        with torch_seam.without_modes():  # raises what PyTorch raises
            torch.empty((), dtype=meta.dtype, device="cpu").fill_(number)
    _, values = _record_full((meta.shape, number), {"dtype": meta.dtype})
    assert values[0] is not None
    write_back(target, meta, values[0], False)
    return target


def _real(number: complex) -> float:
    return number.real if isinstance(number, complex) else number


_record_full = Recorder(aten.full.default)


def factory_of(op: str) -> str | None:
    """The overload that makes what a factory's out= form writes: aten.arange.start_step for aten.arange.start_out."""
    form = schema(op).parameters
    if any(p.cls == "tensor" and not p.written for p in form):
        return None
    ignored = ("device", "layout", "pin_memory", "dtype", "generator")
    kept = [(p.name, p.type) for p in form if not p.written and p.name != "generator"]
    packet = getattr(torch.ops.aten, op.split(".")[1])
    for variant in packet.overloads():
        other = schema(f"aten.{op.split('.')[1]}.{variant}").parameters
        own = [(p.name, p.type) for p in other if p.name not in ignored]
        if own == kept and not any(p.written for p in other) and _has_generator(other) is _has_generator(form):
            return f"aten.{op.split('.')[1]}.{variant}"
    return None


def _has_generator(parameters: Iterable[Any]) -> bool:
    return any(p.name == "generator" for p in parameters)


def factory_out(factory: str) -> Handler:
    record = Recorder(overload(factory))

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out: PjrtTensor = kwargs["out"]
        _refuse_other_devices(out, args, kwargs)
        given = {"dtype": out._meta.dtype}
        if kwargs.get("generator") is not None:
            given["generator"] = kwargs["generator"]
        try:
            spec, (value,) = record(args, given)
        except OffDevice as off:
            return state.host.on_cpu(func, args, kwargs, off.counted)
        meta = spec.outputs[0]
        assert meta is not None and value is not None
        write_back(out, meta, value, True)
        return out

    return handle

"""Operations whose results share the memory of their operand, and those that give a tensor other memory."""

from __future__ import annotations

import math
from typing import Any

import torch

from truecast.capture import torch_seam
from truecast.capture.aliasing import Alias, Step, memory_order, single_step
from truecast.capture.device import storage
from truecast.capture.device.dispatch import (
    OffDevice,
    Recorder,
    emit,
    lazy_of,
    op_name,
    shaped,
    with_numbers,
)
from truecast.capture.device.making import Handler, on_cpu, returns_one
from truecast.capture.device.state import state
from truecast.capture.device.tensor import PjrtTensor
from truecast.capture.device.values import Meta, Spec, dense_strides
from truecast.capture.functional import functional_form
from truecast.errors import UnsupportedError
from truecast.ops.schema import overload

aten = torch.ops.aten


# Views that aliasing.py can't invert: writes go through what as_strided makes of the same memory. So do those of a
# part of an expanded tensor.
_AS_STRIDED = frozenset(("aten.unfold.default",))


def view(func: Any) -> Handler:
    record = Recorder(func)
    known: dict[Spec, tuple[Step, ...]] = {}
    is_strided = record.name in _AS_STRIDED
    single = returns_one(func)

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        viewed: PjrtTensor = args[0]
        alias = viewed._alias
        lazy_of(viewed)  # the alias's own value is up to date from here on
        try:
            spec, values = record(args, kwargs)
        except OffDevice:
            raise UnsupportedError(
                f"{record.name}: a view that has no lowering",
                where=state.tracker.here().site(),
                why="a view shares memory, so the CPU can't make it in the device's place",
                help="copy first (`.clone()`), or use an operation that makes a new tensor",
            ) from None
        by_memory = is_strided or viewed._meta.shares_elements
        if by_memory:
            alias = memory_order(alias, emit)
        steps = known.get(spec)
        if steps is None:
            steps = known[spec] = _steps(spec, by_memory)
        made = [
            PjrtTensor.make(meta, Alias(value, alias, step))
            for meta, value, step in zip(spec.outputs, values, steps, strict=True)
            if meta is not None and value is not None
        ]
        return made[0] if single else shaped(func, made)

    return handle


def _steps(spec: Spec, by_memory: bool) -> tuple[Step, ...]:
    """The Step of each result of a view operation."""
    metas = [meta for meta in spec.outputs if meta is not None]
    if by_memory:
        return tuple([Step("aten.as_strided.default", (meta.shape, meta.strides, meta.offset)) for meta in metas])
    arguments = (spec.metas[0], *with_numbers(spec.args[1:], ()))
    return tuple([single_step(spec.op, arguments, spec.kwargs, index) for index in range(len(metas))])


def _whole_memory(tensor: PjrtTensor) -> PjrtTensor:
    """The memory that a tensor lies in, its elements in their order there."""
    memory = memory_order(tensor._alias, emit)
    return PjrtTensor.make(Meta.dense(memory.value.dtype, tuple(memory.value.shape)), memory)


_record_as_strided = Recorder(aten.as_strided.default)


def as_strided(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Speaks of the memory, not of the tensor that it is called on."""
    viewed: PjrtTensor = args[0]
    given = dict(zip(("self", "size", "stride", "storage_offset"), args, strict=False)) | kwargs
    whole = _whole_memory(viewed)
    memory = whole._alias
    offset = given.get("storage_offset")
    if offset is None:
        offset = viewed._meta.offset
    size, stride = tuple(given["size"]), tuple(given["stride"])
    if 0 not in size and offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) >= whole.numel():
        with torch_seam.without_modes():  # raises what PyTorch raises
            torch.empty(whole.numel(), dtype=whole.dtype, device="cpu").as_strided(size, stride, offset)
    spec, values = _record_as_strided((whole, size, stride, offset), {})
    meta, value = spec.outputs[0], values[0]
    assert meta is not None and value is not None
    step = single_step(spec.op, (memory.value, *spec.args[1:]), (), 0)
    return PjrtTensor.make(meta, memory.view(step, value))


def same_memory(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source = args[0]
    if not isinstance(source, PjrtTensor):
        return state.host.upload(source)
    return PjrtTensor.make(source._meta, source._alias)


def inplace_view(func: Any) -> Handler:
    """t_, squeeze_, ...: the tensor object becomes a view of its own memory."""
    form = functional_form(op_name(func))
    if form is None:
        return resize if func._opname.startswith("resize") else on_cpu
    target = overload(form.op)

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args[0].become(state.dispatch(target, args, kwargs))
        return args[0]

    return handle


def resize(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """resize_: the memory from the tensor's first element on, seen in another shape. What is longer than that gets
    memory of its own, which starts with the elements that were there."""
    tensor: PjrtTensor = args[0]
    shape = tuple(args[1]) if not isinstance(args[1], torch.Tensor) else tuple(args[1].shape)
    if shape != tensor._meta.shape:
        tensor.become(resized(tensor, shape))
    return tensor


def resized(tensor: PjrtTensor, shape: tuple[int, ...]) -> PjrtTensor:
    whole, offset = _whole_memory(tensor), tensor._meta.offset
    wanted, there = math.prod(shape), math.prod(whole._meta.shape) - offset
    if wanted <= there:
        seen: PjrtTensor = aten.as_strided.default(tensor, shape, dense_strides(shape), offset)
        return seen
    flat = aten.slice.Tensor(aten.view.default(whole, [-1]), 0, offset, offset + there)
    longer: PjrtTensor = aten.view.default(aten.constant_pad_nd.default(flat, [0, wanted - there], 0), list(shape))
    return longer


def set_source(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args[0].become(args[1])
    return args[0]


def set_storage(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return storage.set_to(*args, *kwargs.values(), as_strided=aten.as_strided.default)


def as_strided_copy(tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> torch.Tensor:
    """What the memory holds, which for a tensor that is no whole memory is more than its elements."""
    return aten.clone.default(
        aten.as_strided.default(tensor, *arguments, **keywords), memory_format=torch.contiguous_format
    )


def as_strided_scatter(
    tensor: PjrtTensor, source: torch.Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> torch.Tensor:
    """A copy of the tensor's memory, written where `source` goes, seen as the tensor sees its own."""
    memory = aten.clone.default(_whole_memory(tensor))
    meta = tensor._meta
    offset = meta.offset if storage_offset is None else storage_offset
    aten.copy_.default(aten.as_strided.default(memory, size, stride, offset), source)
    return aten.as_strided.default(memory, meta.shape, meta.strides, meta.offset)

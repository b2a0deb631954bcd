"""What happens to each operation on the device: one handler an overload, chosen once from its schema and the ops table.

It is recorded, recorded as a view, recorded in its functional form with the result written back, decomposed into
others, or run on the CPU.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

from truecast.capture import decompose, torch_seam
from truecast.capture.aliasing import Alias, Step, memory_order, single_step
from truecast.capture.device import between, convolution, factorizations, indexing, recurrent, storage
from truecast.capture.device.dispatch import (
    OffDevice,
    Recorder,
    brought,
    cast,
    emit,
    fresh,
    fresh_results,
    lazy_of,
    op_name,
    shaped,
    with_numbers,
    write,
)
from truecast.capture.device.outs import refuse_dtypes
from truecast.capture.device.state import state
from truecast.capture.device.tensor import PjrtTensor
from truecast.capture.device.values import Lazy, Meta, Spec, dense_strides
from truecast.capture.functional import HIDDEN_WRITES, FunctionalForm, functional_form, is_view, writes
from truecast.errors import UnsupportedError
from truecast.ops.schema import overload, schema

aten = torch.ops.aten
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_handlers: dict[int, Handler] = {}


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    handler = _handlers.get(id(func))  # an overload lives as long as the process, and its own hash is slow
    if handler is None:
        handler = _handlers[id(func)] = _handler_for(func)
    tape = state.tape
    with tape.lock:
        if tape.is_full or tape.token is not tape.executor.token():
            tape.turn()
        return handler(func, args, kwargs)


def functional(func: Any) -> Handler:
    """The handler of an overload that makes new tensors."""
    record = Recorder(func)
    single = _returns_one(func)

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs and (device := kwargs.get("device")) is not None and device.type != state.device.type:
            return between.made_elsewhere(func, args, kwargs)
        try:
            spec, values = record(args, kwargs)
        except OffDevice as off:
            return state.host.on_cpu(func, args, kwargs, off.counted)
        if single:
            meta, value = spec.outputs[0], values[0]
            return None if meta is None or value is None else PjrtTensor.make(meta, state.tape.root(value, meta.layout))
        return shaped(func, list(fresh_results(spec, values)))

    return handle


def _returns_one(func: Any) -> bool:
    """Whether the overload returns one tensor, in no list."""
    returns = func._schema.returns
    return len(returns) == 1 and not str(returns[0].type).startswith("List")


# ---- views ---------------------------------------------------------------------------------------------------

# Views that aliasing.py can't invert: writes go through what as_strided makes of the same memory. So do those of a
# part of an expanded tensor.
_AS_STRIDED = frozenset(("aten.unfold.default",))


def _view(func: Any) -> Handler:
    record = Recorder(func)
    known: dict[Spec, tuple[Step, ...]] = {}
    is_strided = record.name in _AS_STRIDED
    single = _returns_one(func)

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


def _as_strided(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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


def _same_memory(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source = args[0]
    if not isinstance(source, PjrtTensor):
        return state.host.upload(source)
    return PjrtTensor.make(source._meta, source._alias)


def _inplace_view(func: Any) -> Handler:
    """t_, squeeze_, ...: the tensor object becomes a view of its own memory."""
    form = functional_form(op_name(func))
    if form is None:
        return _resize if func._opname.startswith("resize") else _on_cpu
    target = overload(form.op)

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args[0].become(dispatch(target, args, kwargs))
        return args[0]

    return handle


def _resize(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """resize_: the memory from the tensor's first element on, seen in another shape. What is longer than that gets
    memory of its own, which starts with the elements that were there."""
    tensor: PjrtTensor = args[0]
    shape = tuple(args[1]) if not isinstance(args[1], torch.Tensor) else tuple(args[1].shape)
    if shape != tensor._meta.shape:
        tensor.become(_resized(tensor, shape))
    return tensor


def _resized(tensor: PjrtTensor, shape: tuple[int, ...]) -> PjrtTensor:
    whole, offset = _whole_memory(tensor), tensor._meta.offset
    wanted, there = math.prod(shape), math.prod(whole._meta.shape) - offset
    if wanted <= there:
        seen: PjrtTensor = aten.as_strided.default(tensor, shape, dense_strides(shape), offset)
        return seen
    flat = aten.slice.Tensor(aten.view.default(whole, [-1]), 0, offset, offset + there)
    longer: PjrtTensor = aten.view.default(aten.constant_pad_nd.default(flat, [0, wanted - there], 0), list(shape))
    return longer


def _set(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args[0].become(args[1])
    return args[0]


def _set_storage(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return storage.set_to(*args, *kwargs.values(), as_strided=aten.as_strided.default)


# ---- writes --------------------------------------------------------------------------------------------------


def _writer(func: Any, form: FunctionalForm) -> Handler:
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


def _written_through(func: Any, target: Any, written_names: frozenset[str], is_out: bool) -> Handler:
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
        tensor.become(_resized(tensor, meta.shape))  # an empty view: what lies behind it is written
    write(tensor, value)


def _scalar_name(dtype: torch.dtype) -> str:
    from truecast import dtypes

    return dtypes.scalar_name(dtypes.of(dtype))


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


def _fill(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """fill_ and zero_, which read nothing of the tensor."""
    target: PjrtTensor = args[0]
    number = args[1] if len(args) > 1 else 0
    if isinstance(number, torch.Tensor):
        if number.dim():
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {number.dim()} dimensions."
            )
        return _copy(func, (target, number), {})
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


def _factory_of(op: str) -> str | None:
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


def _factory_out(factory: str) -> Handler:
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


# ---- the choice ----------------------------------------------------------------------------------------------


def _decomposed(function: Callable[..., Any]) -> Handler:
    return lambda func, args, kwargs: function(*args, **kwargs)


def _on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return state.host.on_cpu(func, args, kwargs, True)


def _as_strided_copy(tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> torch.Tensor:
    """What the memory holds, which for a tensor that is no whole memory is more than its elements."""
    return aten.clone.default(
        aten.as_strided.default(tensor, *arguments, **keywords), memory_format=torch.contiguous_format
    )


def _as_strided_scatter(
    tensor: PjrtTensor, source: torch.Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> torch.Tensor:
    """A copy of the tensor's memory, written where `source` goes, seen as the tensor sees its own."""
    memory = aten.clone.default(_whole_memory(tensor))
    meta = tensor._meta
    offset = meta.offset if storage_offset is None else storage_offset
    aten.copy_.default(aten.as_strided.default(memory, size, stride, offset), source)
    return aten.as_strided.default(memory, meta.shape, meta.strides, meta.offset)


# What the other overload makes is written to `out`; these have no functional form of the same arguments.
_OUT_OF: dict[str, Any] = {
    "aten.native_batch_norm.out": aten.native_batch_norm.default,
    "aten._native_batch_norm_legit.out": aten._native_batch_norm_legit.default,
}

# PyTorch's own compositions of these don't write to an `out` of a tensor subclass (2.13): the first ask for the address
# of its memory, the others make a tensor of their own and return it.
_OUT_OF_COMPOSITES: dict[str, Any] = {
    "aten.matmul.out": aten.matmul.default,
    "aten.linalg_matmul.out": aten.matmul.default,
    "aten.linalg_matrix_rank.out": aten.linalg_matrix_rank.default,
    "aten.linalg_matrix_rank.out_tol_tensor": aten.linalg_matrix_rank.tol_tensor,
    "aten.linalg_matrix_rank.atol_rtol_float_out": aten.linalg_matrix_rank.atol_rtol_float,
    "aten.linalg_matrix_rank.atol_rtol_tensor_out": aten.linalg_matrix_rank.atol_rtol_tensor,
}

# They resize what they write to, as others do their `out`.
_RESIZING = frozenset(("aten.addbmm_.default",))


def out_kernels() -> dict[str, Callable[..., Any]]:
    """Kernels of composite overloads that have to be the device's own, by overload."""
    return {op.removeprefix("aten."): _out_kernel(overload(op)) for op in _OUT_OF_COMPOSITES}


def _out_kernel(func: Any) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and any(t.requires_grad for t in torch_seam.tensors_in((args, kwargs))):
            raise RuntimeError(
                f"{func._opname}(): functions with out=... arguments don't support automatic differentiation, but one "
                "of the arguments requires grad."
            )
        return dispatch(func, args, kwargs)

    return run


_SPECIAL: dict[Any, Handler] = {
    aten.copy_.default: _copy,
    aten._to_copy.default: between.to_copy,
    aten.detach.default: _same_memory,
    aten.alias.default: _same_memory,
    aten.lift_fresh.default: _same_memory,
    aten.lift.default: _same_memory,
    aten.as_strided.default: _as_strided,
    aten.as_strided_copy.default: _decomposed(_as_strided_copy),
    aten.as_strided_scatter.default: _decomposed(_as_strided_scatter),
    aten._pack_padded_sequence.default: _decomposed(
        torch_seam.composite_explicit(aten._pack_padded_sequence.default) or aten._pack_padded_sequence.default
    ),
    aten.cholesky.default: _decomposed(factorizations.cholesky),
    aten._linalg_check_errors.default: lambda func, args, kwargs: state.host.on_cpu(func, args, kwargs, False),
    aten._local_scalar_dense.default: between.item,
    aten.set_.source_Tensor: _set,
    aten.set_.source_Storage: _set_storage,
    aten.set_.source_Storage_storage_offset: _set_storage,
    aten.resize_.default: _resize,
    aten.resize_as_.default: _resize,
    aten.fill_.Scalar: _fill,
    aten.fill_.Tensor: _fill,
    aten.zero_.default: _fill,
    aten._pack_padded_sequence.default: _decomposed(recurrent.pack_padded_sequence),
    aten._thnn_fused_lstm_cell.default: _decomposed(recurrent.lstm_cell),
    aten._thnn_fused_lstm_cell_backward_impl.default: _decomposed(recurrent.lstm_cell_backward),
    aten._thnn_fused_gru_cell.default: _decomposed(recurrent.gru_cell),
    aten._thnn_fused_gru_cell_backward.default: _decomposed(recurrent.gru_cell_backward),
    **{
        overload(f"aten.{name}" if "." in name else f"aten.{name}.default"): _decomposed(kernel)
        for name, kernel in convolution.kernels().items()
    },
}


def _handler_for(func: Any) -> Handler:
    if func in _SPECIAL:
        return _SPECIAL[func]
    if func._opname in factorizations.CHECKED:
        return factorizations.checked(_usual(func), factorizations.CHECKED[func._opname])
    if func._opname == "cholesky_inverse":
        return factorizations.cholesky_inverse(_usual(func))
    if func._opname == "linalg_ldl_solve":
        return factorizations.ldl_solve(_usual(func))
    return _usual(func)


def _usual(func: Any) -> Handler:
    if func._opname in ("index", "_unsafe_index"):
        return indexing.reading(functional(func))
    op = op_name(func)
    if func._opname in ("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"):
        form = functional_form(op) if writes(op) else None
        return indexing.writing(_writer(func, form) if form is not None else functional(func))
    if torch.Tag.inplace_view in func.tags:
        return _inplace_view(func)
    if writes(op):
        form = functional_form(op)
        written = frozenset(p.name for p in schema(op).parameters if p.written)
        is_out = all(p.keyword_only for p in schema(op).parameters if p.written)
        source = _OUT_OF.get(op) or _OUT_OF_COMPOSITES.get(op)
        if source is not None:
            outs = frozenset(p.name for p in schema(op).parameters if p.written and p.keyword_only)
            return _written_through(func, source, outs, True)
        if op.startswith("aten._foreach_") and decompose.definition_of(op.replace("_.", ".")) is not None:
            return _written_through(func, overload(op.replace("_.", ".")), written, False)
        if form is not None and decompose.definition_of(form.op) is not None:
            return _written_through(func, overload(form.op), written, is_out)
        if form is not None:
            return _writer(func, form)
        factory = _factory_of(op)
        if factory is not None:
            return _factory_out(factory)
        function = torch_seam.composite_explicit(func)
        return _decomposed(function) if function is not None else _on_cpu
    if is_view(op):
        return _decomposed(func.decompose) if torch_seam.is_implicit_composite(func) else _view(func)
    function = decompose.definition_of(op)
    if function is not None:
        return _decomposed(function)
    return functional(func)

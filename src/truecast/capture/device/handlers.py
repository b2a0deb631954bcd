"""What happens to each operation on the device: one handler an overload, chosen once from its schema and the ops table.

It is recorded, recorded as a view, recorded in its functional form with the result written back, decomposed into
others, or run on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from truecast.capture import decompose, torch_backend, torch_seam
from truecast.capture.device import between, convolution, factorizations, indexing, recurrent, viewing, writing
from truecast.capture.device.dispatch import op_name
from truecast.capture.device.making import Handler, functional, on_cpu
from truecast.capture.device.state import state
from truecast.capture.functional import functional_form, is_view, writes
from truecast.ops.schema import overload, schema

aten = torch.ops.aten
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


def _decomposed(function: Callable[..., Any]) -> Handler:
    return lambda func, args, kwargs: function(*args, **kwargs)


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
    aten.copy_.default: writing.copy,
    aten._to_copy.default: between.to_copy,
    aten.detach.default: viewing.same_memory,
    aten.alias.default: viewing.same_memory,
    aten.lift_fresh.default: viewing.same_memory,
    aten.lift.default: viewing.same_memory,
    aten.as_strided.default: viewing.as_strided,
    aten.as_strided_copy.default: _decomposed(viewing.as_strided_copy),
    aten.as_strided_scatter.default: _decomposed(viewing.as_strided_scatter),
    aten.cholesky.default: _decomposed(factorizations.cholesky),
    aten._linalg_check_errors.default: lambda func, args, kwargs: state.host.on_cpu(func, args, kwargs, False),
    aten._local_scalar_dense.default: between.item,
    aten.set_.source_Tensor: viewing.set_source,
    aten.set_.source_Storage: viewing.set_storage,
    aten.set_.source_Storage_storage_offset: viewing.set_storage,
    aten.resize_.default: viewing.resize,
    aten.resize_as_.default: viewing.resize,
    aten.fill_.Scalar: writing.fill,
    aten.fill_.Tensor: writing.fill,
    aten.zero_.default: writing.fill,
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
        return indexing.writing(writing.writer(func, form) if form is not None else functional(func))
    if torch.Tag.inplace_view in func.tags:
        return viewing.inplace_view(func)
    if writes(op):
        form = functional_form(op)
        written = frozenset(p.name for p in schema(op).parameters if p.written)
        is_out = all(p.keyword_only for p in schema(op).parameters if p.written)
        source = _OUT_OF.get(op) or _OUT_OF_COMPOSITES.get(op)
        if source is not None:
            outs = frozenset(p.name for p in schema(op).parameters if p.written and p.keyword_only)
            return writing.written_through(func, source, outs, True)
        if op.startswith("aten._foreach_") and decompose.definition_of(op.replace("_.", ".")) is not None:
            return writing.written_through(func, overload(op.replace("_.", ".")), written, False)
        if form is not None and decompose.definition_of(form.op) is not None:
            return writing.written_through(func, overload(form.op), written, is_out)
        if form is not None:
            return writing.writer(func, form)
        factory = writing.factory_of(op)
        if factory is not None:
            return writing.factory_out(factory)
        function = torch_backend.composite_explicit(func)
        return _decomposed(function) if function is not None else on_cpu
    if is_view(op):
        return _decomposed(func.decompose) if torch_seam.is_implicit_composite(func) else viewing.view(func)
    function = decompose.definition_of(op)
    if function is not None:
        return _decomposed(function)
    return functional(func)

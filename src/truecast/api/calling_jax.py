"""`call_jax`: a JAX function as an operation on tensors, on the device, on the CPU and while a program is recorded.

`truecast::call_jax` is declared in ops/schema.py and lowered in lowering/calling_jax.py; here it gets what PyTorch
needs of it: shapes for fake tensors, a kernel for CPU tensors, derivatives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import torch

from truecast import dtypes
from truecast.api import programs
from truecast.capture.torch_export import hide_from_dynamo
from truecast.errors import UsageError
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.lowering.calling_jax import OPERATION, Form, JaxFunction, find, learn
from truecast.ops.schema import overload


def call_jax(function: Callable[..., Any], *tensors: torch.Tensor) -> Any:
    """`function(*tensors)` for a function of JAX arrays, a Pallas kernel too; its result's arrays are tensors.

    On the device, and in a program being recorded, it is one operation among the others, of the same program. It is
    traced once for a function object and the dtypes and shapes of its operands, compiled with the program around it,
    and differentiated by jax.vjp. It computes in the dtypes that it says itself: no policy has a say. 64-bit operands
    stay 64-bit. It must be pure, as for jax.jit; numbers go into it by functools.partial.

    Raises UsageError for arguments that are no tensors, UnsupportedError for callbacks to Python, and what the
    function raises for operands of such shapes and dtypes.
    """
    if not callable(function):
        raise UsageError(f"a {type(function).__name__} can't be called", help="pass a function of JAX arrays")
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, torch.Tensor):
            raise UsageError(
                f"argument {position} of call_jax is a {type(tensor).__name__}, not a tensor",
                help="bind what is no tensor with functools.partial, outside of the training loop",
            )
    if not tensors:
        raise UsageError("call_jax needs a tensor, whose device it runs on", help="pass at least one")
    known = learn(function, tuple([_form(t) for t in tensors]))
    results = _Call.apply(known, *tensors)
    return jax.tree.unflatten(known.structure, results)


hide_from_dynamo(call_jax)


def _form(tensor: torch.Tensor) -> Form:
    return dtypes.of(tensor.dtype), tuple(tensor.shape)


class _Call(torch.autograd.Function):
    """From a JaxFunction and its operands to the tuple of its results."""

    generate_vmap_rule = False

    @staticmethod
    def forward(known: JaxFunction, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(_operation()(known.name, list(tensors)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        known, *tensors = inputs
        ctx.known = known
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.mark_non_differentiable(*[t for t in output if not (t.is_floating_point() or t.is_complex())])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        known: JaxFunction = ctx.known
        wanted = tuple([n and d for n, d in zip(ctx.needs_input_grad[1:], known.differentiable, strict=True)])
        inexact = [_conjugate(g) for g, (dtype, _) in zip(gradients, known.results, strict=True) if dtype.is_inexact]
        found = iter(_Call.apply(known.pullback(wanted), *ctx.saved_tensors, *inexact))
        return (None, *[_conjugate(next(found)) if w else None for w in wanted])

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        known: JaxFunction = ctx.known
        moved = tuple([t is not None and d for t, d in zip(tangents, known.differentiable, strict=True)])
        given = [t for t, moves in zip(tangents, moved, strict=True) if moves]
        found = iter(_Call.apply(known.pushforward(moved), *ctx.saved_tensors, *given))
        return tuple([next(found) if dtype.is_inexact else None for dtype, _ in known.results])

    @staticmethod
    def vmap(info: Any, in_dims: Any, known: JaxFunction, *tensors: torch.Tensor) -> tuple[Any, Any]:
        forms = tuple([_form(t) for t in tensors])
        results = _Call.apply(known.batched(tuple(in_dims[1:]), forms), *tensors)
        return results, (0,) * len(results)


def _conjugate(gradient: torch.Tensor) -> torch.Tensor:
    """PyTorch's gradient of a complex number is the conjugate of JAX's."""
    return gradient.conj().resolve_conj() if gradient.is_complex() else gradient


# ---- the operation, as PyTorch sees it -----------------------------------------------------------------------


@functools.cache
def _operation() -> Any:
    operation = overload(OPERATION)
    name = operation.name()
    torch.library.register_fake(name, _fake)
    torch.library.impl(name, "CPU", _on_cpu)
    return operation


def _fake(function: str, operands: list[torch.Tensor]) -> list[torch.Tensor]:
    return [
        torch.empty(shape, dtype=dtypes.torch_dtype(dtype), device=operands[0].device)
        for dtype, shape in find(function).results
    ]


def _on_cpu(function: str, operands: list[torch.Tensor]) -> list[torch.Tensor]:
    return list(_compiled(function)(*operands))


@functools.cache
def _compiled(function: str) -> Callable[..., Any]:
    """A program of this one operation."""
    known = find(function)
    inputs = tuple([Value(f"in{i}", dtype, shape) for i, (dtype, shape) in enumerate(known.operands)])
    outputs = tuple([Value(f"out{i}", dtype, shape) for i, (dtype, shape) in enumerate(known.results)])
    node = Node(OPERATION, (function, inputs), (), outputs)
    graph = Graph(known.label, tuple(map(Input, inputs)), (node,), tuple(map(Output, outputs)))
    return programs.lower(graph, numerics="eager").compile()

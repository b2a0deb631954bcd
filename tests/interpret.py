"""Runs a Graph with PyTorch eager: the obvious meaning of a Graph, to compare captures and lowerings with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from truecast import dtypes
from truecast.capture.captured import Captured
from truecast.dtypes import DType
from truecast.graph import Graph, Token, Value
from truecast.ops.schema import overload


def interpret(graph: Graph, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """The graph's outputs, in order, for its inputs, in order; each result has the dtype and shape the Graph says."""
    held: dict[str, torch.Tensor] = {}
    for entry, tensor in zip(graph.inputs, inputs, strict=True):
        held[entry.value.name] = _checked(entry.value, tensor)

    def argument(item: Any) -> Any:
        if isinstance(item, Value):
            return held[item.name]
        if isinstance(item, tuple):
            return [argument(i) for i in item]
        if isinstance(item, DType):
            return dtypes.torch_dtype(item)
        return _token(item.text) if isinstance(item, Token) else item

    with torch.no_grad():
        for node in graph.nodes:
            operands = list(map(argument, node.args))
            function = overload(node.op)
            if node.op == "aten.view.default":  # of a value, whose elements have an order but no strides
                function = torch.ops.aten.reshape.default
            elif node.op == "aten.as_strided.default":
                operands[0] = operands[0].clone(memory_format=torch.contiguous_format)
            result = function(*operands, **{k: argument(v) for k, v in node.kwargs})
            results = _flat(result)
            for value, tensor in zip(node.outputs, results, strict=True):
                if value is not None:
                    held[value.name] = _checked(value, tensor)
    return [None if o.value is None else held[o.value.name] for o in graph.outputs]


def call(captured: Captured, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """`interpret` with the tensors of the captured call's arguments (its numbers left out), in order."""
    names = [name for name in captured.arguments if name is not None]
    given = {**captured.bound, **dict(zip(names, tensors, strict=True))}
    return interpret(captured.graph, [given[entry.value.name] for entry in captured.graph.inputs])


def _flat(result: Any) -> list[Any]:
    return [t for r in result for t in _flat(r)] if isinstance(result, list | tuple) else [result]


def _checked(value: Value, tensor: torch.Tensor) -> torch.Tensor:
    got = (dtypes.of(tensor.dtype), tuple(tensor.shape))
    assert got == (value.dtype, value.shape), f"%{value.name} is {value}, eager has {got}"
    return tensor


def _token(text: str) -> Any:
    if text.startswith("torch."):
        return getattr(torch, text.removeprefix("torch."))
    return torch.device(text)

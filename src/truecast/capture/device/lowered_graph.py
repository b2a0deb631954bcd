"""Records as a Graph: what a run hands to the lowering."""

from __future__ import annotations

from typing import Any

import torch

from truecast import dtypes
from truecast.capture.device.held import known
from truecast.capture.device.values import Lazy, Meta, Record, ScalarSlot, Slot, Spec
from truecast.graph import Graph, Input, Node, Output, Token, Value


def build_graph(records: list[Record], inputs: list[Lazy], kept: list[Lazy], lifted: frozenset[int]) -> Graph:
    """The Graph of a run: inputs in0.., then lifted numbers k0.., one node a record, one output a kept value."""
    values: dict[int, Value] = {}
    entries: list[Input] = []
    for index, lazy in enumerate(inputs):
        value = Value(f"in{index}", dtypes.of(lazy.dtype), lazy.shape)
        values[id(lazy)] = value
        entries.append(Input(value))
    nodes: list[Node] = []
    position = 0
    for number, record in enumerate(records):
        numbers: list[Any] = []
        for scalar in record.scalars:
            if position in lifted:
                value = Value(f"k{position}", dtypes.of(type(scalar)), (), scalar=True)
                entries.append(Input(value, "scalar"))
                numbers.append(value)
            else:
                numbers.append(scalar)
            position += 1
        outputs: list[Value | None] = []
        for index, made in enumerate(record.outputs):
            if made is None:
                outputs.append(None)
                continue
            name = f"v{number}" if len(record.outputs) == 1 else f"v{number}_{index}"
            values[id(made)] = value = Value(name, dtypes.of(made.dtype), made.shape)
            outputs.append(value)
        operands = [values[id(lazy)] for lazy in record.operands]
        spec = record.spec
        args = tuple([_literal(a, operands, numbers) for a in spec.args])
        kwargs = tuple([(name, _literal(a, operands, numbers)) for name, a in spec.kwargs])
        nodes.append(Node(spec.op, args, kwargs, tuple(outputs), record.position.site()))
    results = tuple([Output(values[id(lazy)]) for lazy in kept])
    return Graph("pjrt", tuple(entries), tuple(nodes), results)


def of_call(
    op: str, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...], metas: tuple[Meta, ...], numbers: Any
) -> tuple[list[Value], Node]:
    """One call as a Node without outputs, and the values of its operands."""
    values = [Value(f"in{i}", dtypes.of(m.dtype), m.shape) for i, m in enumerate(metas)]
    node_args = tuple([_literal(a, values, numbers) for a in args])
    return values, Node(op, node_args, tuple([(name, _literal(a, values, numbers)) for name, a in kwargs]), ())


def of_one(spec: Spec, numbers: tuple[Any, ...]) -> Graph:
    """A Graph of one call."""
    values, node = of_call(spec.op, spec.args, spec.kwargs, spec.metas, numbers)
    outputs = tuple([
        None if m is None else Value(f"v{i}", dtypes.of(m.dtype), m.shape) for i, m in enumerate(spec.outputs)
    ])  # fmt: skip
    nodes = (Node(node.op, node.args, node.kwargs, outputs),)
    return Graph("pjrt", tuple(map(Input, values)), nodes, tuple([Output(v) for v in outputs if v is not None]))


def _literal(argument: Any, operands: list[Value], numbers: Any) -> Any:
    if type(argument) is Slot:
        return operands[argument.index]
    if type(argument) is ScalarSlot:
        return numbers[argument.index]
    if isinstance(argument, tuple | list):
        return tuple([_literal(a, operands, numbers) for a in argument])
    if isinstance(argument, torch.dtype):
        return known(argument)
    if isinstance(argument, torch.device | torch.layout | torch.memory_format):
        return Token(str(argument))
    return argument

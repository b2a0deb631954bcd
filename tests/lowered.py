"""What a Graph becomes under a policy: StableHLO before XLA, and the program that XLA:CPU makes of it."""

from __future__ import annotations

import re
from typing import Any

import jax

from truecast import dtypes
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.lowering import rules as _rules  # noqa: F401  (registers every rule)
from truecast.lowering.emit import function_of
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import resolve


def chain(*steps: tuple[str, tuple[str, ...]], inputs: dict[str, Value], outputs: tuple[str, ...]) -> Graph:
    """A Graph of nodes that all keep the first operand's type: ("aten.mul.Tensor", ("a", "b")) makes "v0", the next
    one "v1", and so on."""
    values = dict(inputs)
    nodes = []
    for index, (op, operands) in enumerate(steps):
        first = values[operands[0]]
        result = Value(f"v{index}", first.dtype, first.shape)
        nodes.append(Node(op, tuple(values[name] for name in operands), (), (result,)))
        values[result.name] = result
    results = tuple(Output(values[name]) for name in outputs)
    return Graph("chain", tuple(map(Input, inputs.values())), tuple(nodes), results).verify()


def _lowered(graph: Graph, numerics: Numerics) -> Any:
    storage = {dtypes.of(a): dtypes.of(b) for a, b in numerics.storage}
    with jax.enable_x64(True):
        shapes = [
            jax.ShapeDtypeStruct(i.value.shape, dtypes.numpy_dtype(storage.get(i.value.dtype, i.value.dtype)))
            for i in graph.inputs
        ]
        return jax.jit(function_of(resolve(graph, numerics)), keep_unused=True).lower(*shapes)


def stablehlo(graph: Graph, numerics: Numerics) -> str:
    """The StableHLO text of the graph under a policy."""
    return _lowered(graph, numerics).as_text()


def compiled(graph: Graph, numerics: Numerics, *, excess_precision: bool = False) -> Any:
    """The graph compiled for XLA:CPU, to call with arrays or to read (`as_text`); the flag is
    xla_allow_excess_precision, which a program whose roundings must hold switches off."""
    return _lowered(graph, numerics).compile(compiler_options={"xla_allow_excess_precision": excess_precision})


def arithmetic(text: str) -> list[str]:
    """The arithmetic of a StableHLO text in order: "convert f32", "multiply bf16", without shapes."""
    found = re.findall(r"stablehlo\.(\w+) .*?: .*?tensor<(?:\d+x)*(\w+)>\s*$", text, re.MULTILINE)
    return [f"{name} {dtype}" for name, dtype in found]

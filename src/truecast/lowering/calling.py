"""How a lowered program is called: from the arguments a person passes to its graph's inputs, and back.

Imports graph only; holds torch's tensors and pytree specs without looking into them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from truecast.graph import Graph


@dataclass(frozen=True)
class Calling:
    """A program's calling convention.

    arguments: for each leaf of the flattened (args, kwargs), the name of its graph input; None for a leaf that
        was baked into the Graph. baked: those leaves, by position.
    results: for each leaf of the flattened result, the index of its graph output, or ("constant", leaf).
    in_spec, out_spec: torch's pytree specs of (args, kwargs) and of the result; None for both means that the
        arguments are the leaves and the result is the tuple of its leaves.
    bound: by value name, the tensors of the inputs that the program owns (parameters, buffers, constants).
    gradients: by the path of an input, the index of the graph output that becomes its tensor's `.grad`.
    """

    arguments: tuple[str | None, ...]
    results: tuple[Any, ...]
    in_spec: Any = None
    out_spec: Any = None
    bound: Mapping[str, Any] = field(default_factory=dict)
    baked: Mapping[int, Any] = field(default_factory=dict)
    gradients: Mapping[str, int] = field(default_factory=dict)


def of_graph(graph: Graph) -> Calling:
    """The calling convention of a Graph by itself: its inputs in order; its results, mutations left out, in order."""
    results = tuple(i for i, output in enumerate(graph.outputs) if output.kind == "result")
    return Calling(tuple(entry.value.name for entry in graph.inputs), results)

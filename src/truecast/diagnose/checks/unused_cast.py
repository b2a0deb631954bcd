"""TC601: a tensor is converted and the result is never used: the program asked for a dtype and did not get it."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import CASTS, Flow
from truecast.diagnose.source import is_statement
from truecast.graph import Node, Value

CODE = "TC601"


def check(flow: Flow) -> Iterator[Finding]:
    """The program's own casts of parameters that nothing reads, while the parameter itself is used afterwards; of any
    tensor where the cast is a whole statement."""
    position = {id(node): i for i, node in enumerate(flow.graph.nodes)}
    results = {o.value.name for o in flow.graph.outputs if o.value is not None}
    for node in flow.graph.nodes:
        result = node.outputs[0] if node.outputs else None
        if result is None or node.op != "aten._to_copy.default" or flow.consumers.get(result.name):
            continue
        source = next(node.inputs)
        used = any(position[id(n)] > position[id(node)] for n in flow.consumers[source.name])
        if used and _is_dropped(flow, node):
            yield _dropped(node, source, result)
            continue
        if node.site.module:  # an argument of a kernel that is not there, or a branch not taken: the model's own affair
            continue
        if result.name in results or result.name in flow.observations.parameters:
            continue
        path = flow.parameter(source)
        if path is None or not used or flow.call(node).function not in CASTS or source.dtype is result.dtype:
            continue
        yield Finding(
            CODE,
            "warning",
            f"a conversion of a parameter to {result.dtype} had no effect: it stays {source.dtype}",
            (
                Place(
                    "symptom",
                    node.site,
                    f"{source} -> {result.dtype}; nothing reads it",
                ),
            ),
            "`.to` returns a new tensor; a name that is bound to it anew does not change the module",
            "convert in place: parameter.data = parameter.data.to(...), or module.to(...)",
        )


def _is_dropped(flow: Flow, node: Node) -> bool:
    """Whether the source shows that the program does nothing with a cast's result: `x.half()` on a line of its own."""
    return flow.call(node).function in CASTS - {"copy_", "__setitem__"} and is_statement(node.site)


def _dropped(node: Node, source: Value, result: Value) -> Finding:
    return Finding(
        CODE,
        "warning",
        f"a conversion to {result.dtype} had no effect: the tensor stays {source.dtype}",
        (Place("symptom", node.site, f"{source} -> {result.dtype}; the result is dropped"),),
        "`.to` and its short forms return a new tensor; only a module's convert in place",
        "bind the result: x = x.to(...)",
    )

"""TC601: a tensor is converted and the result is never used: the program asked for a dtype and did not get it."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import CASTS, Flow
from truecast.diagnose.source import is_statement
from truecast.dtypes import DType
from truecast.graph import Node, Value
from truecast.ops import lookup

CODE = "TC601"


def check(flow: Flow) -> Iterator[Finding]:
    """The program's own casts of parameters that nothing reads, while the parameter itself is used afterwards; of any
    tensor where the cast is a whole statement; and widening casts that are undone at once."""
    yield from _undone(flow)
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


def _undone(flow: Flow) -> Iterator[Finding]:
    """The program's own widening casts that nothing but a cast back reads."""
    for node in flow.graph.nodes:
        result = node.outputs[0] if node.outputs else None
        if node.op != "aten._to_copy.default" or result is None or node.site.phase != "forward":
            continue
        source = next(node.inputs)
        widens = source.dtype.is_floating and result.dtype.is_floating and source.dtype.bits < result.dtype.bits
        if not widens or flow.call(node).function not in CASTS:
            continue
        readers = list(_readers(flow, result))
        if readers and all(_casts_to(flow, reader, source.dtype) for reader in readers):
            yield Finding(
                CODE,
                "warning",
                f"a conversion to {result.dtype} has no effect: it is converted back to {source.dtype} at once",
                (
                    Place("symptom", node.site, f"{source} -> {result.dtype}"),
                    Place("related", readers[0].site, f"{result.dtype} -> {readers[0].outputs[0]}"),
                ),
                f"nothing is computed in between: every number of {source.dtype} is one of {result.dtype} too",
                "drop it; or compute what needs the digits before the conversion back",
            )


def _readers(flow: Flow, value: Value) -> Iterator[Node]:
    """The nodes that read a value, movement seen through."""
    for node in flow.consumers.get(value.name, ()):
        row, result = lookup(node.op), node.outputs[0] if node.outputs else None
        moved = row is not None and row.kind == "movement" and result is not None and result.dtype is value.dtype
        if moved and result is not None and len(node.outputs) == 1 and len(list(node.inputs)) == 1:
            yield from _readers(flow, result)
        else:
            yield node


def _casts_to(flow: Flow, node: Node, dtype: DType) -> bool:
    row, result = lookup(node.op), node.outputs[0] if node.outputs else None
    is_cast = row is not None and row.kind == "cast" and result is not None and result.dtype is dtype
    return is_cast and node.site.phase == "forward" and flow.conversion(node) == "cast"


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

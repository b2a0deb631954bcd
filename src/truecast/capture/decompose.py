"""Which operations become others at capture, so that their precision is the Plan's to decide, not PyTorch's.

An operation with a row in the ops table that is not composite stays as it is. A composite one, or one without a
row, is replaced by PyTorch's own definition of it, unless that definition converts to a compute dtype by itself:
then the operation stays raw, since a hidden convert is what truecast exists to show. A custom operation
(torch.library.custom_op) is replaced by the Python that defines it, which is a part of the program, converts and all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from truecast import dtypes, ops
from truecast.capture import torch_backend, torch_fake, torch_seam
from truecast.dtypes import DType
from truecast.graph import Argument, Graph, Node, Output, Token, Value, map_values
from truecast.ops.schema import overload, schema

# No operation on one tensor does the same: `scalars` is a tensor of numbers, or the sum has no name of its own.
_RAW = frozenset(f"aten._foreach_{name}" for name in ("addcmul.Tensor", "addcdiv.Tensor", "powsum.Scalar"))


@functools.cache
def definition_of(op: str) -> Callable[..., Any] | None:
    """A function of the operation's own arguments that computes it by other operations; None: it stays raw."""
    row = ops.lookup(op)
    if row is not None and row.kind != "composite":
        return None
    func = overload(op)
    if op == "aten._addmm_activation.default":
        return _addmm_activation
    if op.startswith("aten._foreach_") and op not in _RAW:
        return functools.partial(_each, op)
    table = torch_seam.core_decompositions()
    if func in table and not torch_seam.decides_precision(table[func]):
        return table[func]
    if torch_seam.is_implicit_composite(func):
        return func.decompose
    if row is None and is_custom(op):
        return torch_backend.composite_explicit(func)  # the Python of a custom operation: a part of the program
    return None


def is_custom(op: str) -> bool:
    """Whether the operation is neither of PyTorch's core nor truecast's own."""
    return not op.startswith(("aten.", "prims.", "truecast."))


@functools.cache
def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """The same decision for torch.export and AOTAutograd: by overload, what it is replaced by."""
    found = {}
    for func, function in torch_seam.default_decompositions().items():
        if not torch_seam.is_overload(func):
            continue
        row = ops.lookup(f"{func.namespace}.{func._opname}.{func._overloadname}")
        if (row is None or row.kind == "composite") and not torch_seam.decides_precision(function):
            found[func] = function
    return found


def _addmm_activation(bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1, use_gelu: bool = False) -> Any:
    """On the CPU the product is rounded before the activation; PyTorch's own definition computes both in opmath."""
    product = torch.ops.aten.addmm.default(bias, a, b, beta=beta, alpha=alpha)
    return torch.ops.aten.gelu.default(product) if use_gelu else torch.ops.aten.relu.default(product)


def _each(op: str, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    """A `_foreach_` operation, tensor by tensor: lists give one element each, everything else is shared."""
    name, variant = op.removeprefix("aten._foreach_").split(".")
    function = getattr(torch.ops.aten, _OTHER_NAMES.get(f"{name}.{variant}", _OTHER_NAMES.get(name, name)))
    parameters = schema(op).parameters
    given = {**{p.name: a for p, a in zip(parameters, args, strict=False)}, **kwargs}
    count = next(len(given[p.name]) for p in parameters if p.cls == "tensor_list")
    results = []
    for index in range(count):
        mine = {k: a[index] if isinstance(a, list | tuple) else a for k, a in given.items()}
        named = {"value": mine.pop("scalars")} if "addc" in name and "scalars" in mine else {}
        named |= {k: mine.pop(k) for k in ("alpha", "value", "dtype") if k in mine}
        results.append(function(*mine.values(), **named))
    return results


# What the elements of a `_foreach_` operation are called, where not by its own name.
_OTHER_NAMES = {
    "norm": "linalg_vector_norm",
    "zero": "zeros_like",
    "maximum.Scalar": "clamp_min",
    "minimum.Scalar": "clamp_max",
    "maximum.ScalarList": "clamp_min",
    "minimum.ScalarList": "clamp_max",
}


def expand(graph: Graph) -> Graph:
    """The same program with every operation that has a definition replaced by it."""
    if all(definition_of(node.op) is None for node in graph.nodes):
        return graph
    expansion = _Expansion(graph)
    for node in graph.nodes:
        expansion.add(node)
    outputs = tuple(
        Output(o.value if o.value is None else expansion.now(o.value), o.kind, o.target) for o in graph.outputs
    )
    return Graph(graph.name, graph.inputs, tuple(expansion.nodes), outputs)


class _Expansion:
    def __init__(self, graph: Graph) -> None:
        self.nodes: list[Node] = []
        self._names = {i.value.name for i in graph.inputs} | {v.name for n in graph.nodes for v in n.outputs if v}
        self._replaced: dict[str, Value] = {}  # result of an expanded operation -> what computes it now
        self._templates: dict[Any, Graph | None] = {}

    def now(self, value: Value) -> Value:
        return self._replaced.get(value.name, value)

    def add(self, node: Node) -> None:
        if self._replaced:
            args = map_values(node.args, self.now)
            kwargs = tuple((k, map_values(v, self.now)) for k, v in node.kwargs)
            node = Node(node.op, args, kwargs, node.outputs, node.site)
        definition = definition_of(node.op)
        if definition is None:
            self.nodes.append(node)
            return
        template = self._template(node, definition)
        if template is None:
            self.nodes.append(node)
            return
        local = dict(zip((i.value.name for i in template.inputs), self._operands(node, template), strict=True))
        for inner in template.nodes:
            outputs = tuple(v if v is None else self._renamed(v, local) for v in inner.outputs)
            args = map_values(inner.args, lambda v: local[v.name])
            kwargs = tuple((k, map_values(a, lambda v: local[v.name])) for k, a in inner.kwargs)
            self.nodes.append(Node(inner.op, args, kwargs, outputs, node.site))
        results = [o.value for o in template.outputs if o.kind == "result"]
        for outer, inner_value in zip(node.outputs, results, strict=True):
            if outer is not None and inner_value is not None:
                now = local[inner_value.name]
                assert (now.dtype, now.shape) == (outer.dtype, outer.shape), (
                    f"{node.op}: its definition gives {now}, it gives {outer}"
                )
                self._replaced[outer.name] = now

    def _operands(self, node: Node, template: Graph) -> list[Value]:
        operands = list(node.inputs)
        assert len(operands) == len(template.inputs), f"the definition of {node.op} reads a tensor of its own"
        return operands

    def _renamed(self, value: Value, local: dict[str, Value]) -> Value:
        stem = value.name.rsplit("_", 1)[0]
        name = f"{stem}_{len(self._names)}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        local[value.name] = renamed = Value(name, value.dtype, value.shape, value.scalar)
        return renamed

    def _template(self, node: Node, definition: Callable[..., Any]) -> Graph | None:
        """The definition as a Graph whose inputs are the node's operands in order; once for each signature. None for a
        custom operation whose Python does more than call PyTorch (NumPy, a kernel): it stays raw, for the lowering to
        refuse by name."""
        anonymous = (map_values(node.args, _typed), tuple((k, map_values(v, _typed)) for k, v in node.kwargs))
        key = (node.op, repr(anonymous))
        if key not in self._templates:
            try:
                self._templates[key] = _traced(node, definition)
            except Exception:
                if not is_custom(node.op):
                    raise
                self._templates[key] = None
        return self._templates[key]


def _typed(value: Value) -> Argument:
    return Token(f"{value}{' scalar' if value.scalar else ''}")


def _traced(node: Node, definition: Callable[..., Any]) -> Graph:
    from truecast.capture.recorder import trace

    operands = list(node.inputs)
    mode = torch_fake.new_fake_mode()
    with torch_seam.without_modes(), mode:
        tensors = tuple(torch.empty(v.shape, dtype=dtypes.torch_dtype(v.dtype)) for v in operands)

    def call(*given: torch.Tensor) -> Any:
        rest = iter(given)
        types = {p.name: p.type for p in schema(node.op).parameters}
        positions = [p.type for p in schema(node.op).parameters]
        args = [concrete(a, rest, t) for a, t in zip(node.args, positions, strict=False)]
        kwargs = {k: concrete(a, rest, types[k]) for k, a in node.kwargs}
        result = definition(*args, **kwargs)
        return list(result) if isinstance(result, list | tuple) else result

    with torch_seam.without_modes(), torch.no_grad():
        # Operands that disagree got here only where the policy casts them (law N12): its inner nodes are cast as well.
        return trace(call, tensors, on_violation="cast").graph


def concrete(argument: Argument, tensors: Any, type_name: str) -> Any:
    """The node's argument as PyTorch takes it, its Values replaced by `tensors` in order."""
    if isinstance(argument, Value):
        return next(tensors)
    if isinstance(argument, tuple):
        return [concrete(a, tensors, type_name) for a in argument]
    if isinstance(argument, DType):
        return dtypes.torch_dtype(argument)
    if isinstance(argument, Token):
        return _TOKENS[argument.text] if argument.text in _TOKENS else torch.device("cpu")
    return argument


_TOKENS: dict[str, Any] = {
    str(t): t
    for t in (
        torch.strided,
        torch.sparse_coo,
        torch.contiguous_format,
        torch.preserve_format,
        torch.channels_last,
        torch.channels_last_3d,
    )
} | {"torch.Generator": None}

__all__ = ["concrete", "decomposition_table", "definition_of", "expand"]

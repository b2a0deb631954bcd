"""Where a value's dtype came from: which operation gave it, because of which operand, by which rule.

Reads a Graph and its Observations as plain data. `Flow.step` answers for one value, `Flow.origin` follows the
operations that hand a dtype on (views, arithmetic on equal dtypes) back to the one that chose it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from truecast import dtypes
from truecast.dtypes import DType
from truecast.graph import Graph, Input, Node, Value
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import Plan, resolve
from truecast.observations import UNKNOWN_CALL, Call, NumpyBirth, Observations
from truecast.ops import lookup
from truecast.ops.operands import PROMOTING, bound, numeric_names
from truecast.ops.table import Op
from truecast.sites import UNKNOWN, Site

Why = Literal[
    "promotion",  # a dimensioned tensor of a wider dtype decided
    "category",  # an operand of another category (a float beside integers) decided, whatever its form
    "default",  # integers in floating arithmetic become torch.get_default_dtype()
    "number",  # a Python or NumPy number of a higher category (complex beside float) decided
    "cast",  # the program's own conversion
    "autocast",  # a conversion that an autocast region inserts
    "internal",  # a conversion inside of a function that the program called
    "gradient",  # a conversion in the backward pass, the mirror of one in the forward pass
    "factory",  # an operation that makes a tensor from nothing
    "input",  # it came from outside of what was recorded
    "parameter",  # a module's parameter
    "numpy",  # NumPy made it
    "follows",  # the operands have this dtype
    "result",  # the operation returns this dtype whatever its operands have
]

CASTS = frozenset(
    (
        *(
            "to",
            "float",
            "half",
            "bfloat16",
            "double",
            "type",
            "type_as",
            "long",
            "int",
            "short",
            "char",
            "byte",
            "bool",
        ),
        *("cfloat", "cdouble", "chalf", "copy_", "__setitem__", "tensor", "as_tensor", "asarray"),
    )
)


# Public functions whose operation has another name.
_ALIASES = {
    "true_divide": "div",
    "divide": "div",
    "truediv": "div",
    "rtruediv": "div",
    "multiply": "mul",
    "subtract": "sub",
    "concat": "cat",
    "concatenate": "cat",
    "hstack": "cat",
    "vstack": "cat",
}
_NUMBER = {False: "Python number", True: "NumPy scalar"}


@dataclass(frozen=True, slots=True)
class Step:
    """How `value` got its dtype. because: the operand that decided; outvoted: those of a narrower dtype; birth: where
    NumPy's numbers became a tensor."""

    value: Value
    why: Why
    node: Node | None = None
    source: Input | None = None
    because: Value | None = None
    outvoted: tuple[Value, ...] = ()
    birth: NumpyBirth | None = None

    @property
    def site(self) -> Site:
        if self.birth is not None:
            return self.birth.site
        return self.node.site if self.node is not None else UNKNOWN


class Flow:
    """The questions that checks ask of a Graph."""

    def __init__(
        self, graph: Graph, observations: Observations | None = None, numerics: Numerics | None = None
    ) -> None:
        self.graph, self.observations = graph, observations or Observations()
        self.numerics = numerics  # the policy that the program is to run under, if one is chosen
        self.producers, self.consumers = graph.producers(), graph.consumers()
        self.inputs = {entry.value.name: entry for entry in graph.inputs}
        self._steps: dict[str, Step] = {}
        self._origins: dict[str, Step] = {}
        self._owners: dict[str, str | None] = {}
        self._walked = False

    @functools.cached_property
    def plan(self) -> Plan | None:
        """What the chosen policy decides for each node; what refuses its operands counts as cast (law N12)."""
        if self.numerics is None:
            return None
        return resolve(self.graph, replace(self.numerics, on_mismatch="cast"))

    def call(self, node: Node) -> Call:
        """The public function that a node was dispatched by."""
        return self.observations.call(node.name)

    def parameter(self, value: Value) -> str | None:
        """The path of the parameter whose contents `value` is, views and casts included; None for another value.
        A parameter that no module names has the path ""."""
        passed: list[str] = []
        path: str | None = None
        for step in self.back(value):
            name = step.value.name
            if name in self._owners:
                path = self._owners[name]
                break
            passed.append(name)
            path = self.observations.parameters.get(name)
            if path is None and step.source is not None and step.source.kind == "parameter":
                path = step.source.path
            moved = step.node is not None and (op := lookup(step.node.op)) is not None and op.kind == "movement"
            if path is not None or (not moved and step.why not in ("autocast", "cast")):
                break
        self._owners.update(dict.fromkeys(passed, path))
        return path

    def step(self, value: Value) -> Step:
        """How `value` got its dtype, one operation back."""
        if not self._walked:
            # In program order: a step asks for those of its operands, and a chain of them may be long.
            self._walked = True
            for node in self.graph.nodes:
                for output in node.outputs:
                    if output is not None:
                        self._steps[output.name] = self._step(output)
        known = self._steps.get(value.name)
        if known is None:
            known = self._steps[value.name] = self._step(value)
        return known

    def back(self, value: Value) -> Iterator[Step]:
        """The steps from `value` back along the operands that decided, through casts too."""
        while True:
            step = self.step(value)
            yield step
            following = step.because
            if following is None:
                return
            value = following

    def origin(self, value: Value) -> Step:
        """The step that chose the dtype which `value` has. Of promotions that follow each other it is the first: had it
        been rounded there, the later ones would not have been."""
        passed: list[Step] = []
        for step in self.back(value):
            origin = self._origins.get(step.value.name, step)
            passed.append(step)
            if origin is not step or step.why not in ("follows", "promotion"):
                break
        for step in reversed(passed):
            if step.why == "promotion" and origin.why != "promotion":
                origin = step
            self._origins[step.value.name] = origin
        return origin

    def chain(self, value: Value) -> list[Step]:
        """The steps from `value` to its origin."""
        steps = []
        for step in self.back(value):
            steps.append(step)
            if step.why != "follows":
                break
        return steps

    def _step(self, value: Value) -> Step:
        if value.name in self.observations.parameters:
            return Step(value, "parameter", self.producers.get(value.name), self.inputs.get(value.name))
        node = self.producers.get(value.name)
        birth = self.observations.numpy.get(value.name)
        if birth is not None:
            return Step(value, "numpy", node, self.inputs.get(value.name), birth=birth)
        if node is None:
            source = self.inputs[value.name]
            return Step(value, "parameter" if source.kind == "parameter" else "input", None, source)
        row = lookup(node.op)
        operands = _operands(node, row)
        if row is not None and row.kind == "cast":
            return self._cast(value, node, operands)
        if not operands:
            return Step(value, "factory", node)
        return _deciding(value, node, row, sorted(operands, key=self._is_owned))

    def _is_owned(self, value: Value) -> bool:
        """Whether a value is a parameter or a view of one: a layer's result follows its input rather than its bias."""
        return self.parameter(value) is not None

    def _cast(self, value: Value, node: Node, operands: list[Value]) -> Step:
        source = operands[0] if operands else None
        if source is None or source.dtype is value.dtype:
            return Step(value, "follows", node, because=source)
        return Step(value, self.conversion(node), node, because=source)

    def rule(self, step: Step) -> str:
        """The rule of PyTorch's that gave a step its dtype, in words."""
        deciding = step.because
        numpy = step.node is not None and self.call(step.node).numpy
        match step.why:
            case "promotion":
                return "promotion between dimensioned tensors"
            case "category" if deciding is not None and deciding.scalar:
                return f"a {_NUMBER[numpy]}"
            case "category" if deciding is not None:
                return f"a {'dimensioned' if deciding.shape else '0-dim'} tensor of another category"
            case "default" | "number":
                return f"a {_NUMBER[numpy]} beside {'integers' if step.why == 'default' else 'real numbers'}"
            case "cast":
                return "an explicit cast"
            case "autocast":
                call = self.call(step.node) if step.node is not None else UNKNOWN_CALL
                return f"the autocast list of {call.autocast_device}"
            case "internal":
                return "a cast inside of a function"
            case "gradient":
                return "the backward of a cast"
            case "factory":
                given = step.node is not None and any(isinstance(a, DType) for _, a in step.node.kwargs)
                return "a factory's dtype" if given else "a factory's default"
            case "parameter":
                return "a module's parameter"
            case "numpy":
                assert step.birth is not None, "what NumPy made has a birth"
                return step.birth.form
            case "input":
                return "an input"
            case "result":
                return "what the operation returns"
        return "the operands"

    def is_inside(self, node: Node) -> bool:
        """Whether the node is a step within a public function (attention's own addition of its mask), not the
        function that the program called."""
        function, name = self.call(node).function.strip("_"), node.op.split(".")[1].strip("_")
        if not function or _ALIASES.get(function, function) == name:
            return False
        return name not in function and function not in name

    def conversion(self, node: Node) -> Why:
        """Who converts at a cast node."""
        call = self.call(node)
        if not call.function or call.function in CASTS:
            return "cast"
        if node.site.phase == "backward":
            return "gradient"
        return "internal" if call.autocast is None else "autocast"


def _operands(node: Node, row: Op | None) -> list[Value]:
    if row is None:
        return list(node.inputs)
    names = numeric_names(node, row)
    found: list[Value] = []
    for name, argument in bound(node).items():
        if name in names:
            found += [v for v in (argument if isinstance(argument, tuple) else (argument,)) if isinstance(v, Value)]
    return found


def _deciding(value: Value, node: Node, row: Op | None, operands: list[Value]) -> Step:
    same = [v for v in operands if v.dtype is value.dtype]
    if not same:
        floats = [v for v in operands if v.dtype.is_inexact]
        if not floats and value.dtype.is_floating:
            return Step(value, "default", node, because=operands[0], outvoted=tuple(operands))
        if row is not None and row.promotion in PROMOTING and value.dtype.category == "complex":
            return Step(value, "number", node, because=operands[0], outvoted=tuple(operands))
        return Step(value, "result", node, because=operands[0])
    others = tuple(v for v in operands if v.dtype is not value.dtype)
    if row is None or row.promotion not in PROMOTING or not others:
        return Step(value, "follows", node, because=same[0])
    deciding = max(same, key=lambda v: (bool(v.shape), not v.scalar))
    gave_way = tuple(v for v in others if v.dtype.category == value.dtype.category and v.shape)
    if gave_way and deciding.shape and _wider(value.dtype, gave_way[0].dtype):
        return Step(value, "promotion", node, because=deciding, outvoted=gave_way)
    if any(v.dtype.category != value.dtype.category for v in others):
        return Step(value, "category", node, because=deciding, outvoted=others)
    return Step(value, "follows", node, because=deciding)


def _wider(a: DType, b: DType) -> bool:
    return dtypes.real_of(a).bits > dtypes.real_of(b).bits

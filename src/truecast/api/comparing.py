"""`compare`: one call of a program under two policies, with honest rounding, and under a reference, on the same inputs
and random bits, value by value. Composes capture, numerics, the observing runtime, diagnose and report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch.utils import _pytree as pytree

from truecast import dtypes, ops
from truecast.capture import recorder
from truecast.capture.captured import Captured
from truecast.diagnose import drift
from truecast.diagnose.drift import Decision, Measurements, NodeDrift, NotComputed, ParameterDrift, Step, Training
from truecast.dtypes import DType
from truecast.errors import UsageError
from truecast.graph import Graph, Node, Value
from truecast.lowering.sections import cut
from truecast.numerics.mixing import explicit_rounding
from truecast.numerics.numerics import Numerics, Rule
from truecast.numerics.plan import resolve
from truecast.numerics.scope import Policy, policy
from truecast.report.drift import Drift
from truecast.runtime.observing import Observer

Array = np.ndarray[Any, Any]
CompilerRounding = Literal["region", "op"]

# Every float held and computed as float64: the reference. Rounding "op": no compiler may contract or reorder.
FLOAT64 = Numerics(
    "float64",
    rules=(Rule(compute="same", accumulate="same", rounding="op"),),
    storage=(
        *((d.name, "float64") for d in dtypes.BY_NAME.values() if d.is_floating and d.name != "float64"),
        ("complex64", "complex128"),
    ),
    note="the reference of truecast compare",
)
# Each operation computed in float64 and rounded once, to the dtype that the program says.
HONEST = Numerics("honest", rules=(Rule(compute="float64", accumulate="float64", rounding="op"),))

# A section's size: small enough that XLA compiles it in a second, and that 2**24 observed elements (128 MB in float64)
# bound what is held at a time.
_MOST_NODES = 96
_MOST_ELEMENTS = 1 << 24
_SHARED_DRAWS = frozenset(("native_dropout",))  # random, but its arithmetic follows the storage map
_OF_OPERANDS = frozenset(
    "bernoulli.default bernoulli.Tensor poisson binomial _standard_gamma _sample_dirichlet multinomial normal "
    "rrelu_with_noise rrelu_with_noise_functional _fused_dropout".split()
)


def compare(
    program: Callable[..., Any],
    *args: Any,
    a: Policy = "cpu",
    b: Policy = "neuron",
    reference: Policy = "float64",
    steps: int = 0,
    compiler_rounding: CompilerRounding = "region",
    **kwargs: Any,
) -> Drift:
    """How far a program's values under two policies are from a reference, by value, operation and module.

    The same arguments and random bits under A, under B, with each operation computed exactly and rounded once (the
    honest error), and under the reference: "float64" (all floats computed and held as float64), or a policy. All of it
    runs on this machine's CPU. steps: for a training step, whose writes to parameters and states feed the next one,
    how many to take: gives loss curves and the drift of the parameters. compiler_rounding: where a policy that leaves
    rounding to its compiler rounds here: where a region ends ("region"), as a fusing compiler may, or after each "op".
    Raises UsageError for a program without floating arithmetic, and for steps of a program that writes nothing.
    """
    if compiler_rounding not in ("region", "op"):
        raise UsageError(
            f"unknown rounding {compiler_rounding!r}",
            why="what a compiler keeps wide changes as soon as somebody looks: compare decides it",
            help="region or op",
        )
    if steps < 0:
        raise UsageError(f"{steps} steps can't be taken")
    named = {"a": policy(a), "b": policy(b), "reference": FLOAT64 if reference == "float64" else policy(reference)}
    mends = any(numerics.on_mismatch == "cast" for numerics in named.values())
    captured = recorder.trace(program, args, kwargs, on_violation="cast" if mends else "raise")
    chosen = {name: explicit_rounding(numerics, compiler_rounding) for name, numerics in named.items()}
    chosen["honest"] = HONEST
    if mends:
        for name in ("honest", *(["reference"] if named["reference"] is FLOAT64 else [])):
            chosen[name] = chosen[name].with_settings(on_mismatch="cast")
    runs = _Runs(captured.graph, chosen)
    tensors = dict(captured.bound)
    leaves = pytree.tree_leaves((args, kwargs))
    tensors.update((n, leaf) for n, leaf in zip(captured.arguments, leaves, strict=True) if n is not None)
    nodes, decisions = runs.observe(tensors, _seed())
    if not nodes and not decisions:
        raise UsageError(f"{captured.graph.name} has no floating arithmetic to compare")
    return Drift(
        Measurements(
            captured.graph.name,
            named["a"].name,
            named["b"].name,
            named["reference"].name,
            tuple(nodes),
            tuple(decisions),
            runs.not_computed(),
            tuple(o.value.name for o in captured.graph.outputs if o.value is not None and o.kind == "result"),
            _train(captured, runs, tensors, steps) if steps else None,
            (*_notes(named, compiler_rounding), *runs.notes()),
        )
    )


def _notes(named: Mapping[str, Numerics], compiler_rounding: CompilerRounding) -> tuple[str, ...]:
    how = "where an elementwise region ends (law N3)" if compiler_rounding == "region" else "after each operation"
    leaving = dict.fromkeys(n.name for n in named.values() if any(r.rounding == "compiler" for r in n.rules))
    notes = [f"the rounding that {' and '.join(leaving)} leaves to a compiler is done {how}"] if leaving else []
    for numerics in named.values():
        if numerics.storage and numerics is not FLOAT64:
            held = ", ".join(f"{program} held as {device}" for program, device in numerics.storage)
            notes.append(f"under {numerics.name}: {held} (law N11)")
    return tuple(notes)


def _seed() -> tuple[int, int]:
    """Two words from torch's generator, as each call of a compiled program draws them (law N8)."""
    first, second = torch.empty(2, dtype=torch.int64).random_(0, 1 << 32).tolist()
    return first, second


class _Runs:
    """The four runs of one Graph, side by side."""

    def __init__(self, graph: Graph, chosen: Mapping[str, Numerics]) -> None:
        self.graph = graph
        self._stretches = cut(graph, _MOST_NODES, _MOST_ELEMENTS)
        self._results = frozenset(o.value.name for o in graph.outputs if o.value is not None)
        self._plans = plans = {name: resolve(graph, numerics) for name, numerics in chosen.items()}
        declared = _as_declared(graph) if chosen["reference"].storage == FLOAT64.storage else {}
        mends = chosen["honest"].on_mismatch
        fallback = resolve(graph, Numerics.preset("eager").with_settings(on_mismatch=mends))
        watched = frozenset(v.name for node in graph.nodes for v in self._watched(node))
        compiled: dict[tuple[Any, ...], Any] = {}
        self._observers = {
            name: Observer(plan, self._stretches, watched, compiled=compiled)
            for name, plan in plans.items()
            if name != "reference"
        }
        self._observers["reference"] = Observer(
            plans["reference"], self._stretches, watched, declared, fallback, compiled
        )

    def observe(self, tensors: Mapping[str, Any], seed: Sequence[int]) -> tuple[list[NodeDrift], list[Decision]]:
        """One call under all four, section by section."""
        for observer in self._observers.values():
            observer.start(tensors, seed)
        nodes: list[NodeDrift] = []
        decisions: list[Decision] = []
        for number, stretch in enumerate(self._stretches):
            seen = {name: observer.run(number) for name, observer in self._observers.items()}
            for index in stretch:
                for value in self._watched(self.graph.nodes[index]):
                    arrays = {name: values.pop(value.name) for name, values in seen.items()}
                    if value.dtype.is_inexact:
                        nodes.append(_drift(self.graph.nodes[index], index, value, arrays))
                    else:
                        decisions.append(_decision(self.graph.nodes[index], index, value, arrays))
        return nodes, decisions

    def step(self, tensors: Mapping[str, Mapping[str, Any]], seed: Sequence[int]) -> dict[str, list[Any]]:
        """The outputs of one call under each of the four, from the contents that each has for the graph's inputs."""
        outputs = {}
        for name, observer in self._observers.items():
            observer.start(tensors[name], seed)
            for number in range(len(observer)):
                observer.run(number)
            outputs[name] = observer.outputs()
        return outputs

    def notes(self) -> list[str]:
        """How many nodes A and B decide differently, whether or not it shows in a value."""
        difference = self._plans["a"].diff(self._plans["b"])
        decided = len(difference.differences)
        return [f"A and B decide {decided} of {len(self.graph.nodes)} nodes differently"] * bool(difference)

    def not_computed(self) -> tuple[NotComputed, ...]:
        reasons = self._observers["reference"].as_declared
        return tuple(NotComputed(n.name, n.op, n.site, why) for n in self.graph.nodes if (why := reasons.get(n.name)))

    def _watched(self, node: Node) -> list[Value]:
        """The values of a node to measure: floating ones that it computes or the program returns, and decisions."""
        floating, discrete = drift.has_error(node), drift.decides(node)
        return [
            v
            for v in node.outputs
            if v is not None and v.size
            if (v.dtype.is_inexact and (floating or v.name in self._results)) or (not v.dtype.is_inexact and discrete)
        ]


def _as_declared(graph: Graph) -> dict[str, str]:
    """The nodes that float64 can't stand in for, with the reason; "" for draws, which are the same in every run."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        row = ops.lookup(node.op)
        name = node.op.split(".")[1]
        if node.op == "aten.view.dtype":
            found[node.name] = "it reads the bits of its operand"
        elif row is not None and row.exact:
            found[node.name] = "it is about the numbers that its operands' own dtype has"
        elif row is not None and row.kind == "random" and name not in _SHARED_DRAWS:
            describes = {name, node.op.removeprefix("aten.")} & _OF_OPERANDS
            of_operands = describes and any(v.dtype.is_inexact for v in node.inputs)
            found[node.name] = "what it draws depends on its operands as the program holds them" if of_operands else ""
    return found


def _drift(node: Node, index: int, value: Value, arrays: Mapping[str, Array]) -> NodeDrift:
    wide = {name: _wide(array, value.dtype) for name, array in arrays.items()}
    reference = wide["reference"]
    a, b, honest = (drift.measure(wide[name], reference, value.dtype) for name in ("a", "b", "honest"))
    return NodeDrift(
        value.name,
        node.op,
        index,
        node.site,
        value.dtype,
        value.shape,
        a,
        b,
        honest,
        drift.differing(wide["a"], wide["b"]),
        drift.apart(wide["a"], wide["b"], reference),
    )


def _decision(node: Node, index: int, value: Value, arrays: Mapping[str, Array]) -> Decision:
    def flipped(one: str, other: str) -> float:
        return drift.flips(node, arrays[one], arrays[other])

    shares = (flipped("a", "b"), *(flipped(name, "reference") for name in ("a", "b", "honest")))
    return Decision(value.name, node.op, index, node.site, value.size, *shares)


def _wide(array: Any, dtype: DType) -> Array:
    return np.asarray(array).astype(np.complex128 if dtype.category == "complex" else np.float64)


def _train(captured: Captured, runs: _Runs, tensors: Mapping[str, Any], steps: int) -> Training:
    """The losses of each run, and how its parameters drift from the reference's."""
    graph = captured.graph
    written = [(i, o.target) for i, o in enumerate(graph.outputs) if o.kind == "mutation"]
    if not written:
        raise UsageError(
            f"{graph.name} writes nothing that a next step would read",
            why="steps feed the parameters and states that one step wrote to the next",
            help="compare a function that does forward, backward and optimizer.step()",
        )
    loss = next((i for i, o in enumerate(graph.outputs) if _is_loss(o.kind, o.value)), None)
    entries = {entry.value.name: entry for entry in graph.inputs}
    floats = [(i, name) for i, name in written if entries[name].value.dtype.is_inexact]
    parameters = [(i, name) for i, name in floats if entries[name].kind == "parameter"] or floats
    start = {name: _of_tensor(tensors[name]) for _, name in parameters}
    states = {run: dict(tensors) for run in ("a", "b", "reference", "honest")}
    taken: list[Step] = []
    after: dict[str, dict[str, Array]] = {}
    for _ in range(steps):
        outputs = runs.step(states, _seed())
        for run, state in states.items():
            state.update((target, outputs[run][i]) for i, target in written)
        after = {
            run: {name: _wide(outputs[run][i], entries[name].value.dtype) for i, name in parameters} for run in states
        }
        losses = {run: None if loss is None else float(np.asarray(outputs[run][loss])) for run in states}
        way = _distance(after["reference"], start)
        away = {run: _over(_distance(after[run], after["reference"]), way) for run in states}
        taken.append(
            Step(
                losses["a"],
                losses["b"],
                losses["reference"],
                losses["honest"],
                away["a"],
                away["b"],
                away["honest"],
            )
        )

    def last(run: str, name: str) -> float:
        return drift.apart(after[run][name], after["reference"][name], after["reference"][name])

    found = [
        ParameterDrift(entries[name].path or name, last("a", name), last("b", name), last("honest", name))
        for _, name in parameters
    ]
    return Training(tuple(taken), tuple(found))


def _is_loss(kind: str, value: Value | None) -> bool:
    return kind == "result" and value is not None and value.size == 1 and value.dtype.is_floating


def _of_tensor(tensor: Any) -> Array:
    wide = torch.complex128 if tensor.dtype.is_complex else torch.float64
    return tensor.detach().to(wide).numpy()


def _distance(one: Mapping[str, Array], other: Mapping[str, Array]) -> float:
    """The norm of the difference of all arrays together."""
    return float(np.sqrt(sum(float(np.sum(np.abs(one[name] - other[name]) ** 2)) for name in one)))


def _over(distance: float, way: float) -> float:
    return distance / way if way else 0.0 if not distance else float("inf")

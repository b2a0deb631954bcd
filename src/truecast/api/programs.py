"""`plan`, `lower`, `load` and the backend of torch.compile: a program from its capture to what runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import torch
from torch.utils import _pytree as pytree

from truecast.capture import dynamo, recorder
from truecast.capture.captured import Captured
from truecast.capture.tape import OnViolation
from truecast.errors import UsageError
from truecast.graph import Graph
from truecast.lowering.calling import Calling, of_graph
from truecast.lowering.program import TARGETS, Program
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import Plan, resolve
from truecast.numerics.scope import Policy, numerics, policy
from truecast.runtime import archive
from truecast.runtime.backend import runtime


def plan(graph: Graph, numerics: Policy | None = None) -> Plan:
    """How each node of a Graph is computed under a policy (a preset's name, a TOML file's path, a Numerics).

    Without one, the policy in force holds (`truecast.numerics`, `set_numerics`, TRUECAST_NUMERICS, "cpu").
    """
    return resolve(graph, policy(numerics))


def lower(
    program: Callable[..., Any] | Graph,
    *args: Any,
    numerics: Policy | None = None,
    target: str | None = None,
    **kwargs: Any,
) -> Program:
    """A function, an nn.Module or a Graph as StableHLO under a policy, from any host for any target.

    numerics: how it is computed; None for the policy in force. target: the kind of device it is lowered for,
    "cpu", "cuda", "tpu" or "neuron"; None for the CPU, on which every policy can be tried.
    Raises UnsupportedError for an operation without a lowering rule, UsageError for an unknown target.
    """
    chosen = policy(numerics)
    where = _target(target)
    if isinstance(program, Graph):
        if args or kwargs:
            raise UsageError("a Graph is lowered by itself, without arguments")
        return Program(program, resolve(program, chosen), where, runtime(), of_graph(program))
    captured = recorder.trace(program, args, kwargs, on_violation=_on_violation(chosen))
    leaves = pytree.tree_leaves((args, kwargs))
    named = zip(captured.arguments, leaves, strict=True)
    return _program(captured, chosen, where, {i: leaf for i, (name, leaf) in enumerate(named) if name is None})


def load(path: str | PathLike[str], weights: Mapping[str, Any] | None = None) -> Program:
    """A program that `Program.save` wrote. It runs exactly as it was saved, whatever this version would lower.

    weights: for each parameter and buffer the tensor to use instead of the saved one.
    Raises UsageError for a file that is missing, damaged or not a saved program.
    """
    return archive.load(path, runtime(), weights or {})


def dynamo_backend(module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """`torch.compile(f, backend="truecast", options={"numerics": "tpu"})`, forward and backward.

    Without a "numerics" option the policy in force at each call holds, for the backward pass the one in force
    as it runs; a policy that was not met before compiles anew (law N9). On tensors of the pjrt device the operations
    are recorded among the others there.
    """
    chosen = dict(options or {})
    named = chosen.pop("numerics", None)
    if chosen:
        raise UsageError(f"unknown option {next(iter(chosen))!r} of the truecast backend", help="it takes 'numerics'")
    fixed = None if named is None else policy(named)
    if any(isinstance(t, torch.Tensor) and t.device.type == "pjrt" for t in example_inputs):
        return module if fixed is None else dynamo.on_device(module, example_inputs, lambda: numerics(fixed))

    return dynamo.backend(
        module,
        example_inputs,
        compile=lambda captured: _PerPolicy(captured, fixed),
        on_violation=_on_violation(fixed or policy()),
    )


class _PerPolicy:
    """One captured graph, from its input tensors to its outputs, compiled once for each policy it is called under."""

    def __init__(self, captured: Captured, fixed: Numerics | None) -> None:
        self._graph, self._fixed = captured.graph, fixed
        tensors = tuple(name for name in captured.arguments if name is not None)
        self._calling = Calling(tensors, tuple(range(len(captured.graph.outputs))), bound=captured.bound)
        self._compiled: dict[Numerics, Callable[[Sequence[Any]], list[Any]]] = {}
        self._last: tuple[Numerics | None, Any] = (None, None)
        if fixed is not None:
            self._for(fixed)

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        chosen = self._fixed or policy()
        known, compiled = self._last
        return (compiled if known is chosen else self._for(chosen))(leaves)

    def _for(self, chosen: Numerics) -> Callable[[Sequence[Any]], list[Any]]:
        if chosen not in self._compiled:
            program = Program(self._graph, resolve(self._graph, chosen), "cpu", runtime(), self._calling)
            self._compiled[chosen] = program.compile().call_flat
        self._last = (chosen, self._compiled[chosen])
        return self._compiled[chosen]


def _on_violation(chosen: Numerics) -> OnViolation:
    """How capture goes on where dtypes break a demand: under "cast" as after the casts that the Plan will show."""
    return "cast" if chosen.on_mismatch == "cast" else "raise"


def _target(named: str | None) -> str:
    if named is None:
        return "cpu"
    if named not in TARGETS:
        raise UsageError(f"unknown target {named!r}", help=f"one of {', '.join(TARGETS)}")
    return named


def _program(captured: Captured, numerics: Numerics, target: str, baked: Mapping[int, Any]) -> Program:
    calling = Calling(
        arguments=captured.arguments,
        results=captured.results,
        in_spec=captured.in_spec,
        out_spec=captured.out_spec,
        bound=captured.bound,
        baked=baked,
        gradients=captured.gradients,
    )
    return Program(captured.graph, resolve(captured.graph, numerics), target, runtime(), calling)

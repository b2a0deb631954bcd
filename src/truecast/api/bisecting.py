"""`bisect`: which decisions of a policy carry a regression; composes capture, mixed Plans, compiling and the search."""

from __future__ import annotations

import hashlib
import inspect
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.utils import _pytree as pytree

from truecast.capture import recorder
from truecast.capture.captured import Captured
from truecast.diagnose.audit.program import audited_program
from truecast.diagnose.bisect import trial_state
from truecast.diagnose.bisect.delta import Budget, Chosen, Trials
from truecast.diagnose.bisect.metrics import METRICS
from truecast.diagnose.bisect.search import Bisection, Level
from truecast.diagnose.bisect.search import bisect as search
from truecast.errors import UsageError
from truecast.lowering.calling import Calling
from truecast.lowering.fingerprint import fingerprint
from truecast.lowering.program import Program
from truecast.numerics.diff import diff
from truecast.numerics.mixing import Mixture, explicit_rounding, mixture, promotion
from truecast.numerics.numerics import ROUNDINGS
from truecast.numerics.plan import Plan, resolve
from truecast.numerics.scope import Policy, policy
from truecast.report.bisection import BisectionReport, Cost
from truecast.runtime.backend import runtime

Metric = str | Callable[[Any, Any], float]
_TIMED_RUNS = 5


def bisect(
    program: Callable[..., Any],
    *args: Any,
    good: Policy = "cpu",
    bad: Policy = "neuron",
    metric: Metric = "max_rel",
    bound: float | None = None,
    reverse: bool = False,
    finest: Level = "line",
    rounding: str = "region",
    seed: int | None = None,
    budget: str | None = None,
    resume: str | PathLike[str] | None = None,
    progress: Callable[[int, float], None] | None = None,
    **kwargs: Any,
) -> BisectionReport:
    """The smallest set of decisions that makes a function or nn.Module worse under one policy than under another.

    metric: "max_rel", "kl", "loss", "top1", or a function of (result, good result) to a number, larger is worse.
    bound: the value above which there is a regression; None for a tenth of the way from good to bad. reverse: the
    smallest set to promote, instead, so that the value comes under the bound, as a policy with its cost. finest: how
    far the search goes, "rule", "op", "line" or "module". rounding: what stands for the roundings that a policy leaves
    to the compiler (law N3); "compiler" leaves them to this device's. seed: for a program that draws random numbers.
    budget: "90s", "5m" or "40runs". resume: a file that keeps what was measured. progress: called with the number and
    the value of each evaluation.
    The program is left as it was. Raises UsageError for a program, metric or file that this can't be done with.
    """
    if rounding not in ROUNDINGS:
        raise UsageError(f"there is no rounding {rounding!r}", help=f"one of {', '.join(ROUNDINGS)}")
    named = policy(good), policy(bad)
    explicit = tuple(explicit_rounding(n, rounding) for n in named)
    casting = all(n.on_mismatch == "cast" for n in named)
    captured = recorder.trace(program, args, kwargs, on_violation="cast" if casting else "raise")
    mixed = mixture(captured.graph, *explicit)
    limits = Budget.parse(budget)
    evaluation = _Evaluation(captured, mixed, (args, kwargs), metric, seed)
    trials = Trials(evaluation, evaluation.key, budget=limits)
    state, problem = (None, "") if resume is None else (Path(resume), evaluation.problem())
    if state is not None:
        trials.known = trial_state.read(state, problem)

    def note(value: float) -> None:
        if state is not None:
            trial_state.write(state, problem, trials.known)
        if progress is not None:
            progress(trials.runs, value)

    trials.note = note
    direction: Literal["carry", "promote"] = "promote" if reverse else "carry"
    found = search(mixed, trials, metric=evaluation.name, bound=bound, direction=direction, finest=finest)
    if evaluation.is_random:
        reason = "the program draws random numbers and no seed is given; " + found.uncertain
        found = replace(found, uncertain=reason.removesuffix("; "))
    notes = () if explicit == named else (rounding,)
    if not reverse or not found.parts:
        return BisectionReport(found, *notes)
    promoted = promotion(captured.graph, *named, changes=[mixed.changes[i] for i in sorted(found.found)])
    plan = evaluation.plan(frozenset(range(len(mixed.changes))) - found.found)
    exact = not diff(plan, resolve(captured.graph, explicit_rounding(promoted, rounding)))
    return BisectionReport(found, *(notes or ("",)), promoted, exact, _cost(evaluation, found, plan))


class _Evaluation:
    """Runs the program under the mixed Plan of a set of changes, and measures its results against the good ones."""

    def __init__(
        self, captured: Captured, mixed: Mixture, arguments: tuple[Any, Any], metric: Metric, seed: int | None
    ) -> None:
        if isinstance(metric, str) and metric not in METRICS:
            raise UsageError(f"there is no metric {metric!r}", help=f"one of {', '.join(METRICS)}, or a function")
        if callable(metric):
            _require_fitting(metric)
        if seed is not None and not -(2**63) <= seed < 2**64:
            raise UsageError("a seed has 64 bits", values=f"seed {seed}")
        self.captured, self.mixed, self.metric, self.seed = captured, mixed, metric, seed
        self.leaves = pytree.tree_leaves(arguments)
        self.name = metric if isinstance(metric, str) else getattr(metric, "__qualname__", type(metric).__name__)
        self._plans: dict[Chosen, Plan] = {}
        self._good: Any = None
        self._written = {o.target for o in captured.graph.outputs if o.kind == "mutation"}

    def __call__(self, chosen: Chosen) -> float:
        if self._good is None:
            self._good = self.run(self.program(self.plan(frozenset())))
        result = self.run(self.program(self.plan(chosen)))
        if isinstance(self.metric, str):
            return METRICS[self.metric](_arrays(result), _arrays(self._good))
        value = self.metric(result, self._good)
        if not isinstance(value, int | float | torch.Tensor) or getattr(value, "numel", lambda: 1)() != 1:
            raise UsageError(f"the metric {self.name} gave no number", values=f"a {type(value).__name__}")
        return float(value)

    @property
    def is_random(self) -> bool:
        """Whether evaluations draw numbers that nothing fixes."""
        return self.seed is None and self.program(self.plan(frozenset())).is_seeded

    def plan(self, chosen: Chosen) -> Plan:
        if chosen not in self._plans:
            self._plans[chosen] = self.mixed.plan(chosen)
        return self._plans[chosen]

    def key(self, chosen: Chosen) -> str:
        """What names the value of a set: sets that come to one program have one value."""
        return fingerprint(self.plan(chosen), "cpu")

    def problem(self) -> str:
        """A digest of all that a value depends on besides the Plan."""
        digest = hashlib.blake2b(digest_size=16)
        everything = frozenset(range(len(self.mixed.changes)))
        for part in (self.key(frozenset()), self.key(everything), self.name, self.seed, _source(self.metric)):
            digest.update(f"{part}\n".encode())
        for leaf in (*self.captured.bound.values(), *self.leaves):
            digest.update(_bytes(leaf))
        return digest.hexdigest()

    def program(self, plan: Plan) -> Program:
        """The program under a Plan, over tensors of its own wherever it writes."""
        captured = self.captured
        calling = Calling(
            arguments=captured.arguments,
            results=captured.results,
            in_spec=captured.in_spec,
            out_spec=captured.out_spec,
            bound={
                name: tensor.detach().clone() if name in self._written else tensor
                for name, tensor in captured.bound.items()
            },
        )
        return Program(captured.graph, plan, "cpu", runtime(), calling)

    def run(self, program: Program) -> Any:
        """What the program returns; its arguments stay as they are."""
        names = self.captured.arguments
        leaves = [
            leaf.detach().clone() if name in self._written else leaf
            for name, leaf in zip(names, self.leaves, strict=True)
        ]
        compiled = program.compile()
        with torch.random.fork_rng(devices=[], enabled=self.seed is not None):
            if self.seed is not None:
                torch.manual_seed(self.seed)
            results = compiled.call_flat(leaves)
        return pytree.tree_unflatten(results, self.captured.out_spec)


def _cost(evaluation: _Evaluation, found: Bisection, plan: Plan) -> Cost:
    """What a promoted Plan costs beside the bad one: operations, conversions, time."""
    bad = evaluation.plan(frozenset(range(len(found.mixture.changes))))
    programs = [evaluation.program(p) for p in (bad, plan)]
    counts = [audited_program(program).counts() for program in programs]
    seconds: list[list[float]] = [[], []]
    for _ in range(_TIMED_RUNS):
        for program, measured in zip(programs, seconds, strict=True):
            started = time.perf_counter()
            evaluation.run(program)
            measured.append(time.perf_counter() - started)
    nodes = {c.node for part in found.parts for c in part.changes if c.node >= 0}
    return Cost(
        operations=len(nodes),
        converts=counts[1]["converts"] - counts[0]["converts"],
        nbytes=counts[1]["converts.bytes"] - counts[0]["converts.bytes"],
        seconds=(statistics.median(seconds[0]), statistics.median(seconds[1])),
    )


def _require_fitting(metric: Callable[[Any, Any], float]) -> None:
    """Raises UsageError for a metric that does not take two results."""
    try:
        signature = inspect.signature(metric)
    except (TypeError, ValueError):  # a builtin without a signature: the call will tell
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise UsageError(
            f"the metric {getattr(metric, '__qualname__', metric)} can't be called",
            values=str(error),
            help="a metric is a function of (result, good result) to a number",
        ) from error


def _arrays(result: Any) -> Sequence[np.ndarray[Any, Any]]:
    """The tensors of a result as NumPy arrays; those of 16 bits as float64, which holds them exactly."""
    arrays = []
    for leaf in pytree.tree_leaves(result):
        if isinstance(leaf, torch.Tensor):
            narrow = leaf.is_floating_point() and leaf.dtype not in (torch.float32, torch.float64)
            arrays.append((leaf.double() if narrow else leaf).detach().numpy())
    return arrays


def _source(metric: Metric) -> str:
    if isinstance(metric, str):
        return metric
    try:
        return inspect.getsource(metric)
    except (OSError, TypeError):  # made where there is no file: its name has to do
        return ""


def _bytes(leaf: Any) -> bytes:
    if not isinstance(leaf, torch.Tensor):
        return repr(leaf).encode()
    dense = leaf.detach().contiguous().cpu().reshape(-1)
    return f"{leaf.dtype}{tuple(leaf.shape)}".encode() + dense.view(torch.uint8).numpy().tobytes()

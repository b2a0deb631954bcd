"""A tape that also notes what `Observations` holds, and that goes on after an operation refuses its operands.

Two modes work together: `Calls`, above the dispatcher, sees the public functions that the program calls (an explicit
cast and one that autocast inserts are the same operation below), and the tape, below it, sees the operations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from truecast import dtypes
from truecast.capture import decompose, early_checks, recorder, torch_fake, torch_seam
from truecast.capture.overloads import Overload, learn
from truecast.capture.requests import Requests, numpy_form
from truecast.capture.state import States
from truecast.capture.surroundings import Surroundings, modules_of
from truecast.capture.tape import Kwargs, Tape
from truecast.graph import Graph, Value
from truecast.observations import (
    UNKNOWN_CALL,
    Call,
    CastEffect,
    NumpyBirth,
    Observations,
    Overflow,
    ParameterUpdate,
    Refusal,
)
from truecast.ops.contracts import Violation
from truecast.ops.schema import bind
from truecast.sites import Site

_FROM_NUMBERS = frozenset(("tensor", "as_tensor", "asarray"))
_PRODUCTS = frozenset(("contraction", "convolution", "attention"))
_LARGEST_MEASURED = 1 << 16  # elements: a schedule, positions, a table of angles; not activations


class Calls(TorchFunctionMode):
    """Knows the public function that is running: `current`."""

    def __init__(self, tape: ObservingTape) -> None:
        super().__init__()
        self.current = UNKNOWN_CALL
        self._tape = tape
        self._names: dict[Any, str] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outer, kwargs = self.current, kwargs or {}
        if self._tape.is_elsewhere:
            return func(*args, **kwargs)
        dtype, device = torch_seam.autocast_region()
        region = None if dtype is None else dtypes.of(dtype)
        name, numpy = self._name(func), False
        for argument in args:
            numpy = numpy or numpy_form(argument) == "a NumPy scalar"
        requests = self._tape.requests
        self.current = Call(name, region, device, torch.is_grad_enabled(), requests.region, numpy)
        try:
            result = func(*args, **kwargs)
            if name in _FROM_NUMBERS:
                requests.tensor_made(result, args, sys._getframe(1))
            return result
        except RuntimeError as error:
            mended = self._tape.mended(self.current, args, kwargs, error)
            if mended is None:
                raise self._tape.explained(error)  # noqa: B904  (the same error, or one raised from it)
            return func(*mended[0], **mended[1])
        finally:
            self.current = outer

    def _name(self, func: Any) -> str:
        name = self._names.get(func)
        if name is None:
            name = self._names[func] = getattr(func, "__name__", "")
        return name


class ObservingTape(Tape):
    """Records and observes; enter it with `observed`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, on_violation="cast")
        self.calls = Calls(self)
        self.requests = Requests(self.tracker, self._note_numpy)
        self.states = States(self.tracker)
        self.tracker.on_optimizer, self.tracker.on_step_end = self._step_begins, self._step_ends
        self._noted_calls: dict[str, Call] = {}
        self._parameters: dict[str, str] = {}
        self._casts: dict[str, CastEffect] = {}
        self._refusals: list[Refusal] = []
        self._updates: list[ParameterUpdate] = []
        self._before_step: dict[int, torch.Tensor] = {}
        self._custom: dict[str, str] = {}
        self._numpy: dict[str, NumpyBirth] = {}
        self._devices: set[str] = set()
        self._overflows: list[Overflow] = []
        self._scaled: set[str] = set()  # values that a backward pass made of a scaled loss

    @property
    def observations(self) -> Observations:
        return Observations(
            dict(self._noted_calls),
            dict(self._parameters),
            dict(self._casts),
            tuple(self._refusals),
            tuple(self._updates),
            tuple(self.requests.regions),
            tuple(self.requests.flags),
            tuple(self.requests.scaling),
            dict(self.requests.functions),
            dict(self._custom),
            dict(self._numpy),
            tuple(self.states.changes),
            frozenset(self._devices),
            tuple(self._overflows),
        )

    @property
    def operations(self) -> int:
        """How many operations were recorded so far."""
        return len(self._records)

    def recorded(self, name: str) -> Graph:
        """The Graph of what ran so far; its outputs are the writes to inputs."""
        return decompose.expand(self.graph(name, []))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.is_elsewhere:
            return func(*args, **(kwargs or {}))
        first = len(self._records)
        if self.requests.scaled:
            self._note_gradient_write(func, args, kwargs or {})
        try:
            result = super().__torch_dispatch__(func, types, args, kwargs)
        except RuntimeError as error:
            if "without overflow" in str(error):
                self._note_overflow(args)
            raise
        call, custom = self.calls.current, self._custom_function()
        for _, _, _, values, _ in self._records[first:]:
            for value in values:
                if value is not None:
                    self._noted_calls.setdefault(value.name, call)
                    if custom:
                        self._custom[value.name] = custom
                    if self.requests.scaled and self._position.phase == "backward":
                        self._scaled.add(value.name)
        if isinstance(result, torch.Tensor) and (row := learn(func).row) is not None and row.kind in _PRODUCTS:
            self._devices.add(result.device.type)
        for argument in args:
            if isinstance(argument, torch.nn.Parameter):
                self._note_parameter(argument)
        if func is torch.ops.aten._to_copy.default and isinstance(result, torch.Tensor):
            self._measure_cast(args[0], result)
        return result

    def _custom_function(self) -> str:
        """The name of the custom Function that is running, forward or backward; "" for none."""
        if self._position.phase != "backward":
            return self.requests.function
        cls = getattr(type(torch_seam.current_autograd_node()), "_forward_cls", None)
        return "" if cls is None else self.requests.noted(cls, sys._getframe(2))

    def _note_gradient_write(self, func: Any, args: Any, kwargs: Any) -> None:
        if not torch_seam.is_overload(func) or learn(func).role != "write":
            return
        position = self.tracker.here()
        if position.phase == "forward" and any(
            self.memory.knows(target) and self.memory.read(target).name in self._scaled
            for target in learn(func).targets(args, kwargs)
        ):
            self.requests.gradient_written(position.site())

    def _note_overflow(self, args: Any) -> None:
        tensors = [a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()]
        numbers = [float(a) for a in args if isinstance(a, int | float)]
        if tensors and numbers:
            operand, function = self.memory.read(tensors[0]), self.calls.current.function.strip("_")
            self._overflows.append(Overflow(function, operand, max(numbers, key=abs), self.site))

    def _note_numpy(self, tensor: torch.Tensor, birth: NumpyBirth) -> None:
        self._numpy[self.memory.read(tensor).name] = birth

    def _noted(self, error: Exception) -> Exception:
        """What only fake tensors raise, in words that say what to do about it."""
        return recorder.explained(super()._noted(error), self, "the program")

    def explained(self, error: RuntimeError) -> Exception:
        """The same for a public function that reads memory without an operation: `.numpy()`."""
        if torch_fake.reads_memory(error):
            self._position = self.tracker.here()
        return recorder.explained(error, self, "the program")

    def _note_parameter(self, parameter: torch.nn.Parameter) -> None:
        if self.memory.knows(parameter):
            name = self.memory.alias_of(parameter).value.name
            if not self._parameters.get(name):
                self._parameters[name] = self.tracker.tensors.get(id(parameter), ("", ""))[1]

    # -- refused operands --------------------------------------------------------------------------------------

    def _note_refusal(self, op: Overload, broken: Violation, args: Any, kwargs: Kwargs) -> None:
        given = bind(op.name, args, kwargs)
        names = dict.fromkeys([*(n for n, _ in broken.casts), *(n for n, _ in broken.operands)])
        self._refuse(op.name, [(n, given[n]) for n in names], broken.message, self.calls.current)

    def _refuse(self, op: str, operands: list[tuple[str, Any]], message: str, call: Call) -> None:
        values = tuple((name, value) for name, value in operands if isinstance(value, Value))
        self._refusals.append(Refusal(op, values, message, self.site, call))

    def mended(self, call: Call, args: Any, kwargs: Any, error: RuntimeError) -> tuple[Any, Any] | None:
        """The arguments with which a public function that refused its operands' dtypes does not; None where the
        refusal has another reason."""
        found = early_checks.agreement(call, args, kwargs)
        if found is None:
            return None
        self._position = self.tracker.here()
        self._refuse(call.function, [(n, self.memory.read(t)) for n, t in found.operands], str(error), call)
        return found.cast(args, kwargs)

    def _execute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], remembered: bool = False) -> Any:
        """Autograd saved what the program passed to a refused operation, not what it was cast to, so the kernel of its
        backward one may meet dtypes that it can't mix: they follow the gradient's."""
        try:
            return super()._execute(func, args, kwargs, remembered)
        except RuntimeError:
            if self._position.phase != "backward" or not self._was_refused(self.site):
                raise
            found = [a.dtype for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()]
            if len(set(found)) < 2:
                raise
            return super()._execute(func, tuple(early_checks.as_dtype(a, found[0]) for a in args), kwargs, remembered)

    def _was_refused(self, site: Site) -> bool:
        here = site.file, site.line, site.column
        return any((r.site.file, r.site.line, r.site.column) == here for r in self._refusals)

    def before_module(self, module: torch.nn.Module, args: Any) -> Any:
        """Casts the input of a recurrent module that would refuse it, in Python, before anything is dispatched."""
        found = early_checks.recurrent_input(module, args)
        if found is None:
            return None
        self._position = self.tracker.here()
        self._note_parameter(found.weight)
        name = type(module).__name__.lower()
        operands = [("input", self.memory.read(found.input)), ("weight", self.memory.read(found.weight))]
        self._refuse(name, operands, found.message, Call(name, gradients=torch.is_grad_enabled()))
        return found.cast()

    # -- what happened to real numbers -------------------------------------------------------------------------

    def _measure_cast(self, source: torch.Tensor, result: torch.Tensor) -> None:
        narrower = result.is_floating_point() and result.dtype.itemsize <= 2 and source.dtype.itemsize > 2
        if not narrower or not 1 < result.numel() <= _LARGEST_MEASURED or source.is_complex():
            return
        if isinstance(result, torch_fake.FakeTensor) or result.is_meta or result.device.type != "cpu":
            return
        with torch_seam.below_modes(), torch.no_grad():
            before, after = source.detach().flatten(), result.detach().flatten()
            steps, finite = before.double().diff(), before[before.isfinite()].double()
            effect = CastEffect(
                distinct=before.unique().numel(),
                left=after.unique().numel(),
                overflowed=int((after.isinf() & before.isfinite()).sum()),
                ordered=bool((steps >= 0).all() or (steps <= 0).all()) and bool((steps != 0).any()),
                largest=float(finite.abs().max()) if finite.numel() else 0.0,
            )
        self._casts[self.memory.read(result).name] = effect

    def _step_begins(self, optimizer: torch.optim.Optimizer) -> None:
        site = self.tracker.step_site()
        self.requests.optimizer_steps(site)
        self.states.seen(optimizer, site, "between two steps")
        with torch_seam.without_modes(), torch.no_grad():
            for parameter in _narrow_parameters(optimizer):
                if not isinstance(parameter, torch_fake.FakeTensor):
                    self._before_step[id(parameter)] = parameter.detach().clone()

    def _step_ends(self, optimizer: torch.optim.Optimizer) -> None:
        site = self.tracker.step_site()
        self.states.seen(optimizer, site, "in the step")
        with torch_seam.without_modes(), torch.no_grad():
            for parameter in _narrow_parameters(optimizer):
                self._updates.append(self._update(optimizer, parameter, site))
        self._before_step.clear()

    def _update(self, optimizer: torch.optim.Optimizer, parameter: torch.Tensor, site: Site) -> ParameterUpdate:
        pushed = unmoved = None
        before = self._before_step.get(id(parameter))
        if before is not None and parameter.grad is not None:
            moving = parameter.grad != 0
            pushed, unmoved = int(moving.sum()), int((moving & (before == parameter)).sum())
        state = optimizer.state.get(parameter, {})
        kept = [
            (name, dtypes.of(t.dtype))
            for name, t in state.items()
            if isinstance(t, torch.Tensor) and t.shape == parameter.shape
        ]
        path = self.tracker.tensors.get(id(parameter), ("", ""))[1]
        return ParameterUpdate(path, dtypes.of(parameter.dtype), site, pushed, unmoved, tuple(kept))


def _narrow_parameters(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.is_floating_point() and parameter.dtype.itemsize <= 2:
                yield parameter


@contextmanager
def observed(*, fake: bool = False) -> Iterator[ObservingTape]:
    """Records and observes what the block runs, on real tensors or, with `fake`, on fake ones made in the block."""
    tape = ObservingTape(unknown="input")
    try:
        with _fakes(tape) if fake else _nothing(), tape.requests, tape.tracker, _recurrent(tape), tape, tape.calls:
            yield tape
    finally:
        tape.memory.close()


@contextmanager
def _recurrent(tape: ObservingTape) -> Iterator[None]:
    handle = register_module_forward_pre_hook(tape.before_module)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _fakes(tape: ObservingTape) -> Iterator[None]:
    mode = torch_fake.FakeTensorMode(allow_non_fake_inputs=True, static_shapes=True)
    swaps = torch_fake.swaps_told(tape.memory.swap)
    with torch_fake.without_vendor_kernels(), torch_fake.quiet_fake_tensors(), swaps, mode:
        yield


@dataclass(frozen=True)
class Observed:
    """What a program did until it ended or stopped. error: the exception that stopped it."""

    graph: Graph
    observations: Observations
    operations: int
    error: BaseException | None = None


def observe(
    program: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> Observed:
    """One call of a function or module under fake tensors, which leaves it as it found it, as `recorder.trace` does."""
    kwargs = dict(kwargs or {})
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    modules = modules_of(program, leaves)
    owned = [t for module, _ in modules for t in (*module.parameters(), *module.buffers())]
    mode = torch_fake.fake_mode_of(iter([*leaves, *owned])) or torch_fake.new_fake_mode()
    tape = ObservingTape(fake_mode=mode)
    surroundings = Surroundings(tape, modules)
    name = recorder.name_of(program)
    error: BaseException | None = None
    try:
        _, passed = recorder.declare(tape, surroundings, leaves, recorder.argument_names(program, args, kwargs), mode)
        given_args, given_kwargs = pytree.tree_unflatten(passed, in_spec)
        try:
            with tape.requests, _recurrent(tape), tape.calls:
                recorder.run(program, given_args, given_kwargs, tape, mode, name)
        except Exception as stopped:
            error = stopped
        return Observed(tape.recorded(name), tape.observations, tape.operations, error)
    finally:
        surroundings.restore()
        tape.memory.close()

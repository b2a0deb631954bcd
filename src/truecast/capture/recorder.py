"""Records programs: `trace` one call of a function or module, `recording` whatever a block runs.

`trace` runs the program under fake tensors (no data, no memory) and leaves it as it found it: parameters,
gradients, buffers and optimizer states are what they were before. With `fake=False`, and in `recording`, the
program really runs and has its effects.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from truecast.capture import decompose, torch_fake
from truecast.capture.aliasing import read
from truecast.capture.captured import Captured
from truecast.capture.surroundings import Surroundings, modules_of
from truecast.capture.tape import OnViolation, Tape
from truecast.errors import CaptureError, TruecastError, UsageError
from truecast.graph import Graph, Value
from truecast.sites import Site


def trace(
    program: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    fake: bool = True,
    on_violation: OnViolation = "raise",
) -> Captured:
    """One call of a function or module as a Graph: forward, and backward and optimizer step if it does those.

    Tensors among `args` and `kwargs` become inputs, named after the arguments; parameters and buffers of modules
    become inputs with their qualified names; other tensors that the program reaches become constants; numbers are
    baked in. `on_violation` says what happens at an operation that refuses its operands' dtypes (fake tensors let
    some of them pass): PyTorch's own exception, a cast to the weight's dtype (law N12), or "keep", as it is.
    What the call makes and leaves in an object of the program's own is lost, an optimizer's first state too: record
    its second step. Raises CaptureError for a program that a Graph can't describe, and whatever the program raises.
    """
    if not callable(program):
        raise UsageError(f"a {type(program).__name__} can't be called", help="pass a function or an nn.Module")
    kwargs = dict(kwargs or {})
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    modules = modules_of(program, leaves)
    mode = None
    if fake:
        owned = [t for module, _ in modules for t in (*module.parameters(), *module.buffers())]
        mode = torch_fake.fake_mode_of(iter([*leaves, *owned])) or torch_fake.new_fake_mode()
    tape = Tape(fake_mode=mode, on_violation=on_violation)
    surroundings = Surroundings(tape, modules)
    arguments, passed = declare(tape, surroundings, leaves, argument_names(program, args, kwargs), mode)
    given_args, given_kwargs = pytree.tree_unflatten(passed, in_spec)
    name = name_of(program)
    try:
        result = run(program, given_args, given_kwargs, tape, mode, name)
        return _captured(name, tape, surroundings, arguments, in_spec, result)
    finally:
        if fake:
            surroundings.restore()
        tape.memory.close()


class Recording:
    """What a `recording()` block ran. Tensors that it met from outside are inputs; what it still holds at the end
    are the results; writes to inputs are mutations."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._graph: Graph | None = None

    @property
    def graph(self) -> Graph:
        """The Graph of the block; inside the block, of what ran so far."""
        return self._graph if self._graph is not None else self._build()

    def _build(self) -> Graph:
        tape = self._tape
        owned = {e.alias.value.name for e in tape.memory.inputs}
        values = {v.name: v for v in (read(alias, tape.emit) for alias in tape.memory.living()) if v.name not in owned}
        return decompose.expand(tape.graph("recording", list(values.values())))

    @property
    def reads(self) -> tuple[Site, ...]:
        """Where the program looked at a tensor's contents (`.item()`, a branch): what a device has to wait for."""
        return tuple(position.site() for position in self._tape.reads)

    def _end(self) -> None:
        self._graph = self._build()
        self._tape.memory.close()


@contextmanager
def recording(*, on_violation: OnViolation = "raise") -> Iterator[Recording]:
    """Records what the block runs, on any device, with real or fake tensors; the program runs as it would without.

    A tensor is an input if no operation in the block made its memory.
    """
    tape = Tape(unknown="input", on_violation=on_violation)
    record = Recording(tape)
    try:
        with tape.tracker, tape:
            yield record
    except TruecastError as error:
        raise _placed(error, tape)  # noqa: B904  (the same error)
    finally:
        record._end()


def declare(
    tape: Tape, surroundings: Surroundings, leaves: list[Any], names: list[str], mode: torch_fake.FakeTensorMode | None
) -> tuple[tuple[str | None, ...], list[Any]]:
    """Makes the tensors among the arguments inputs; returns their value names, and what the program gets."""
    arguments: list[str | None] = []
    passed: list[Any] = []
    for leaf, name in zip(leaves, names, strict=True):
        given = leaf
        if not isinstance(leaf, torch.Tensor):
            arguments.append(None)
        else:
            tape.memory.refuse_other_than_dense(leaf)
            if mode is not None and not isinstance(leaf, torch.nn.Parameter | torch_fake.FakeTensor):
                given = torch_fake.fake_like(leaf, mode)
            arguments.append(tape.memory.declare(given, "input", name).name)
            surroundings.watch(given, name)
        passed.append(given)
    surroundings.note_shared_memory(leaves, arguments)
    return tuple(arguments), passed


def run(
    program: Callable[..., Any], args: Any, kwargs: Any, tape: Tape, mode: torch_fake.FakeTensorMode | None, name: str
) -> Any:
    """Calls the program while the tape records; what only fake tensors raise is explained."""
    try:
        with ExitStack() as scope:
            if mode is not None:
                scope.enter_context(torch_fake.without_vendor_kernels())
                scope.enter_context(torch_fake.lengths_in_tensors())
                scope.enter_context(torch_fake.quiet_fake_tensors())
                scope.enter_context(_rare_collections())
                scope.enter_context(mode)
            scope.enter_context(tape.tracker)
            scope.enter_context(tape)
            return program(*args, **kwargs)
    except TruecastError as error:
        raise _placed(error, tape)  # noqa: B904  (the same error)
    except Exception as error:
        raise explained(error, tape, name)  # noqa: B904  (the same error, or one raised from it)


def explained(error: Exception, tape: Tape, name: str) -> Exception:
    """The CaptureError for what only fake tensors raise; any other error as it is."""
    explained: CaptureError | None = None
    if isinstance(error, torch_fake.DATA_DEPENDENT) or torch_fake.reads_memory(error):
        explained = CaptureError(
            f"{name} asks for the contents of a tensor",
            where=tape.site,
            values=str(error).splitlines()[0],
            why="it is recorded without data, so that one Graph serves all inputs; a branch, a Python number or "
            "a shape that depends on the data has no place in it",
            help="choose with torch.where, keep the number as a tensor, or mask to a fixed shape; "
            "for an optimizer's step count, fused=True (or capturable=True)",
        )
    elif isinstance(error, torch_fake.unsupported_by_fake_tensors()):
        explained = CaptureError(
            f"{name} can't run on fake tensors",
            where=tape.site,
            values=str(error).splitlines()[0],
            why="an operation has no shape function in PyTorch",
            help="register one (torch.library.register_fake), or record with real tensors (fake=False)",
        )
    if explained is None:
        return error
    explained.__cause__ = error
    return explained


def _placed(error: TruecastError, tape: Tape) -> TruecastError:
    """`error` with the place of the operation being recorded, if it has none."""
    if error.where is None:
        error.where = tape.site
    return error


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Python's garbage collector runs less often: a tape only grows, and walking it over and over doubles its cost."""
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _captured(
    name: str, tape: Tape, surroundings: Surroundings, arguments: tuple[str | None, ...], in_spec: Any, result: Any
) -> Captured:
    leaves, out_spec = pytree.tree_flatten(result)
    outputs: list[Value | None] = []
    results: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            results.append(len(outputs))
            outputs.append(tape.memory.read(leaf))
        elif leaf is None or isinstance(leaf, bool | int | float | complex | str | torch.dtype | torch.device):
            results.append(("constant", leaf))
        else:
            raise CaptureError(
                f"{name} returns a {type(leaf).__name__}",
                why="a result is a tensor, a number, a string, or a nest of lists, tuples and dicts of them",
                help="return the tensors in it (for a transformers model: use_cache=False), or register the class with "
                "torch.utils._pytree.register_pytree_node",
            )
    gradients: dict[str, int] = {}
    for path, value in surroundings.new_gradients():
        gradients[path] = len(outputs)
        outputs.append(value)
    replaced = surroundings.replaced_buffers()
    surroundings.refuse_shared_writes()
    graph = tape.graph(name, outputs, replaced)
    graph = decompose.expand(graph.without_dead_nodes()).without_dead_nodes().verify()
    bound = {e.value.name: e.tensor for e in tape.memory.inputs if e.tensor is not None}
    return Captured(graph, bound, arguments, in_spec, out_spec, tuple(results), gradients)


def name_of(program: Callable[..., Any]) -> str:
    """What the Graph of a program is called."""
    if isinstance(program, torch.nn.Module):
        return type(program).__name__
    return getattr(program, "__qualname__", type(program).__name__).rsplit("<locals>.", 1)[-1]


def argument_names(program: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """For each leaf of (args, kwargs), the argument's name and where in it the leaf is: "batch['mask'][0]"."""
    function = program.forward if isinstance(program, torch.nn.Module) else program
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        parameters = []
    positional: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [f"{parameter.name}[{i}]" for i in range(len(args) - len(positional))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append(parameter.name)
    positional += [f"arg{i}" for i in range(len(positional), len(args))]
    names = []
    for path, _ in pytree.tree_flatten_with_path((args, dict(kwargs)))[0]:
        first = positional[path[1].idx] if path[0].idx == 0 else path[1].key
        names.append(first + pytree.keystr(path[2:]))
    return names

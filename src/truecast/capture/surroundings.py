"""What a program owns around a call (modules, gradients, optimizer states): found before it, read after it, restored.

Recording under fake tensors must leave no fake tensor behind in the user's model, and what the program put there
(a gradient, a new buffer) is part of what it computes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from truecast.capture import torch_seam
from truecast.capture.memory import shared_write
from truecast.capture.tape import Tape
from truecast.errors import CaptureError
from truecast.graph import Output, Value


def modules_of(program: Callable[..., Any], leaves: Iterable[Any]) -> list[tuple[torch.nn.Module, str]]:
    """The modules that a program reaches by name (itself, its closure, the globals it names, its object's attributes,
    its arguments), each with the prefix of its paths: "" for the only one, else its name."""
    if isinstance(program, torch.nn.Module):
        return [(program, "")]
    found: dict[int, tuple[torch.nn.Module, str]] = {}
    for name, value in _reached(program):
        items: Iterable[tuple[str, Any]] = [(name, value)]
        if isinstance(value, list | tuple):
            items = [(f"{name}.{i}", v) for i, v in enumerate(value)]
        elif isinstance(value, dict):
            items = [(f"{name}.{k}", v) for k, v in value.items()]
        for path, item in items:
            if isinstance(item, torch.nn.Module):
                found.setdefault(id(item), (item, path))
    for index, leaf in enumerate(leaves):
        if isinstance(leaf, torch.nn.Module):
            found.setdefault(id(leaf), (leaf, f"arg{index}"))
    modules = list(found.values())
    inner = {id(child) for module, _ in modules for child in module.modules() if child is not module}
    modules = [m for m in modules if id(m[0]) not in inner]
    return [(modules[0][0], "")] if len(modules) == 1 else modules


def _reached(program: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(program, functools.partial):
        yield from _reached(program.func)
        yield from ((f"arg{i}", a) for i, a in enumerate(program.args))
        yield from program.keywords.items()
        return
    owner = getattr(program, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        yield "self", owner
    elif owner is not None and hasattr(owner, "__dict__"):
        yield from vars(owner).items()
    function = getattr(program, "__func__", program)
    code = getattr(function, "__code__", None)
    if code is None:
        if hasattr(program, "__dict__"):
            yield from vars(program).items()
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a name that is not bound yet
            continue
    for name in _global_names(code):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _global_names(code: Any) -> list[str]:
    names = list(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names += _global_names(constant)
    return list(dict.fromkeys(names))


class Surroundings:
    """The state around one traced call."""

    def __init__(self, tape: Tape, modules: list[tuple[torch.nn.Module, str]]) -> None:
        self._tape = tape
        self._gradients: dict[int, tuple[str, torch.Tensor, torch.Tensor | None]] = {}  # id -> path, leaf, .grad before
        self._attributes: list[tuple[torch.nn.Module, dict[str, Any]]] = []
        self._states: dict[int, tuple[torch.optim.Optimizer, dict[Any, Any]]] = {}
        self._shared: list[set[str]] = []  # value names of arguments in one memory
        for module, prefix in modules:
            tape.tracker.add_root(module, prefix)
            for child in module.modules():
                self._attributes.append((child, _one_level_copy(vars(child))))
            for parameter in module.parameters():
                self.watch(parameter, tape.tracker.tensors[id(parameter)][1])
        tape.tracker.on_optimizer = self._note_optimizer

    def watch(self, tensor: torch.Tensor, path: str) -> None:
        """Remembers the gradient that a leaf tensor has before the call."""
        if not tensor.requires_grad or not tensor.is_leaf or id(tensor) in self._gradients:
            return
        self._gradients[id(tensor)] = (path, tensor, tensor.grad)
        if tensor.grad is not None:
            self._tape.tracker.tensors.setdefault(id(tensor.grad), ("buffer", f"{path}.grad"))

    def note_shared_memory(self, leaves: list[Any], arguments: list[str | None]) -> None:
        groups: dict[int, set[str]] = {}
        for leaf, name in zip(leaves, arguments, strict=True):
            if name is not None and leaf.layout is torch.strided:
                groups.setdefault(torch_seam.storage_key(leaf), set()).add(name)
        self._shared = [group for group in groups.values() if len(group) > 1]

    def _note_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if id(optimizer) in self._states:
            return
        state = {p: dict(entries) for p, entries in optimizer.state.items()}
        self._states[id(optimizer)] = (optimizer, state)
        tensors = self._tape.tracker.tensors
        for parameter, entries in state.items():
            _, path = tensors.get(id(parameter), ("", "parameter"))
            for name, entry in entries.items():
                if isinstance(entry, torch.Tensor):
                    tensors.setdefault(id(entry), ("buffer", f"{path}.{name}"))

    def new_gradients(self) -> Iterator[tuple[str, Value]]:
        """The gradients that the call left where there was none, or another tensor."""
        for entry in self._tape.memory.inputs:
            tensor = entry.tensor
            if tensor is not None and tensor.requires_grad and tensor.is_leaf:
                path = self._tape.tracker.tensors.get(id(tensor), ("", entry.path))[1]
                self._gradients.setdefault(id(tensor), (path, tensor, entry.gradient))
        for path, tensor, before in self._gradients.values():
            if tensor.grad is not None and tensor.grad is not before:
                yield path, self._tape.memory.read(tensor.grad)

    def replaced_buffers(self) -> list[Output]:
        """Buffers that the call gave another tensor (`self.mean = 0.9 * self.mean + ...`): mutations."""
        outputs = []
        for module, before in self._attributes:
            for name, old in before["_buffers"].items():
                new = module._buffers.get(name)
                if new is old or old is None or new is None:
                    continue
                alias = self._tape.memory.alias_of(old)  # becomes an input, if the call never read it
                target = next(e.value for e in self._tape.memory.inputs if e.alias is alias)
                value = self._tape.memory.read(new)
                if (value.dtype, value.shape) != (target.dtype, target.shape):
                    raise CaptureError(
                        f"the buffer {name!r} is replaced by one of another type",
                        values=f"{target} by {value}",
                        why="the Graph writes its results back to the buffers that the module has",
                        help="keep the buffer's dtype and shape, or return the new tensor",
                    )
                outputs.append(Output(value, "mutation", target.name))
        return outputs

    def refuse_shared_writes(self) -> None:
        written = {e.value.name for e in self._tape.memory.inputs if e.alias.value is not e.value}
        for group in self._shared:
            if group & written:
                raise shared_write(tuple(sorted(group)))

    def restore(self) -> None:
        """Puts back gradients, module attributes and optimizer states."""
        for _, tensor, before in self._gradients.values():
            if tensor.grad is not before:
                tensor.grad = before
        for module, before in self._attributes:
            _restore_one_level(vars(module), before)
        for optimizer, state in self._states.values():
            optimizer.state.clear()
            optimizer.state.update(state)


def _one_level_copy(attributes: dict[str, Any]) -> dict[str, Any]:
    return {k: dict(v) if _is_registry(k, v) else v for k, v in attributes.items()}


def _is_registry(name: str, attribute: Any) -> bool:
    """A scripted module's registries are views of what the script holds: no dicts, and not to be cleared."""
    return name in _REGISTRIES and isinstance(attribute, dict)


def _restore_one_level(attributes: dict[str, Any], before: dict[str, Any]) -> None:
    for name in [n for n in attributes if n not in before]:
        del attributes[name]
    for name, value in before.items():
        if _is_registry(name, attributes.get(name)):
            attributes[name].clear()
            attributes[name].update(value)
        else:
            attributes[name] = value


_REGISTRIES = ("_parameters", "_buffers", "_modules")

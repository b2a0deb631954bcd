"""Where in the user's program an operation is: source position, module path and phase, kept while recording.

A position is a compact tuple; it becomes a `Site` when the graph is built. A backward operation takes the line
and the module of the forward operation it belongs to: PyTorch numbers autograd nodes, and the number that a
node carries in the backward pass is the one that was drawn as its forward operation was dispatched.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from truecast import sites
from truecast.capture import torch_seam
from truecast.graph import InputKind
from truecast.sites import UNKNOWN, Phase, Site, is_framework_file


class Position(NamedTuple):
    code: CodeType | None
    offset: int
    module: str
    phase: Phase

    def site(self) -> Site:
        if self.code is None:
            return Site(module=self.module, phase=self.phase) if self.module or self.phase != "forward" else UNKNOWN
        return sites.resolve(self.code, self.offset, self.module, self.phase)


# A Position from a tuple: the constructor of a NamedTuple takes 0.1 us longer.
position_of: Callable[[tuple[Any, ...]], Position] = functools.partial(tuple.__new__, Position)


class Tracker:
    """Answers `here()` between `__enter__` and `__exit__`, while its hooks on modules and optimizers are in place."""

    def __init__(self) -> None:
        self.roots: dict[int, tuple[torch.nn.Module, str]] = {}
        self.paths: dict[int, str] = {}  # id of a module -> its path
        self.tensors: dict[int, tuple[InputKind, str]] = {}  # id of a parameter or buffer -> (kind, path)
        self.on_optimizer: Callable[[torch.optim.Optimizer], None] | None = None
        self.on_step_end: Callable[[torch.optim.Optimizer], None] | None = None
        self._running: list[str] = []  # paths of the modules whose forward is running
        self._stepping = 0
        self._forward: dict[int, Position] = {}  # sequence number -> position of the forward operation
        self._hooks = ExitStack()
        self._framework: dict[str, bool] = {}

    def __enter__(self) -> Tracker:
        self._hooks.enter_context(torch_seam.module_hooks(self._enter_module, self._leave_module))
        self._hooks.enter_context(torch_seam.optimizer_hooks(self._enter_step, self._leave_step))
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.close()

    def add_root(self, module: torch.nn.Module, prefix: str) -> None:
        """Names `module`'s submodules, parameters and buffers; the first name that a shared one gets stays."""
        self.roots[id(module)] = (module, prefix)
        for name, child in module.named_modules():
            self.paths.setdefault(id(child), _joined(prefix, name))
        for name, parameter in module.named_parameters():
            self.tensors.setdefault(id(parameter), ("parameter", _joined(prefix, name)))
        for name, buffer in module.named_buffers():
            self.tensors.setdefault(id(buffer), ("buffer", _joined(prefix, name)))

    def here(self) -> Position:
        """The position of the operation being dispatched; call it from a dispatch mode's handler."""
        node = torch_seam.current_autograd_node()
        if node is not None:
            return self._in_backward(node, sys._getframe(1))
        frame = self._user_frame(sys._getframe(1))
        module = self._running[-1] if self._running else ""
        phase: Phase = "optimizer" if self._stepping and not self._running else "forward"
        if frame is None:
            position = Position(None, 0, module, phase)
        else:
            position = Position(frame.f_code, frame.f_lasti, module, phase)
        # Only the first operation after a number is drawn belongs to it: those that make no autograd node draw none.
        self._forward.setdefault(torch_seam.next_sequence_number() - 1, position)
        return position

    def _in_backward(self, node: Any, frame: FrameType | None) -> Position:
        """frame: where to look for the program's own; it may run inside the backward pass (a custom backward, a hook, a
        recomputed forward), or be the line that called it."""
        forward = self._forward.get(node._sequence_nr())
        while frame is not None and is_framework_file(frame.f_code.co_filename):
            if frame.f_code.co_name == "_engine_run_backward":
                frame = self._user_frame(frame) if forward is None else None
                break
            frame = frame.f_back
        if forward is not None and frame is None:
            return position_of((forward.code, forward.offset, forward.module, "backward"))
        module = self._running[-1] if self._running else forward.module if forward else ""
        if frame is None:
            return Position(None, 0, module, "backward")
        return Position(frame.f_code, frame.f_lasti, module, "backward")

    def _user_frame(self, frame: FrameType | None) -> FrameType | None:
        known = self._framework
        while frame is not None:
            file = frame.f_code.co_filename
            framework = known.get(file)
            if framework is None:
                framework = known[file] = is_framework_file(file)
            if not framework:
                return frame
            frame = frame.f_back
        return None

    def _enter_module(self, module: torch.nn.Module, args: Any) -> None:
        path = self.paths.get(id(module))
        if path is None:
            if self._running:
                path = self._running[-1]  # made while running, not registered: it counts as its caller
            else:
                self.add_root(module, self._free_prefix(module))
                path = self.paths[id(module)]
        self._running.append(path)

    def _leave_module(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        self._running.pop()

    def _free_prefix(self, module: torch.nn.Module) -> str:
        taken = {prefix for _, prefix in self.roots.values()}
        name = type(module).__name__
        candidates = ("", name, *(f"{name}_{i}" for i in range(2, len(taken) + 2)))
        return next(c for c in candidates if c not in taken)

    def _enter_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._stepping += 1
        if self.on_optimizer is not None:
            self.on_optimizer(optimizer)

    def _leave_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._stepping -= 1
        if self.on_step_end is not None:
            self.on_step_end(optimizer)

    def step_site(self) -> Site:
        """The user's line that called the optimizer step whose hook is running."""
        frame = self._user_frame(sys._getframe(1))
        return UNKNOWN if frame is None else sites.resolve(frame.f_code, frame.f_lasti, "", "optimizer")


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix and name else prefix or name

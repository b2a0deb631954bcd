"""Where the program asks for an operation of the device: a Tracker for a whole process.

A recording ends; the device does not. So this one keeps no module alive, forgets forward operations whose backward
is long past, and knows the modules of each thread.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

import torch

from truecast.capture import torch_seam
from truecast.capture.position import Position, Tracker
from truecast.sites import is_framework_file

_MOST_FORWARD = 1 << 18  # forward operations remembered for their backward: the older half goes first


class DeviceTracker(Tracker):
    def __init__(self) -> None:
        self._local = threading.local()
        super().__init__()
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()

    def here(self) -> Position:
        """The position of the operation being dispatched."""
        if torch_seam.current_autograd_node() is not None:
            return super().here()
        frame: Any = sys._getframe(2)
        known = self._framework
        while frame is not None:
            code = frame.f_code
            framework = known.get(code.co_filename)
            if framework is None:
                framework = known[code.co_filename] = is_framework_file(code.co_filename)
            if not framework:
                break
            frame = frame.f_back
        running = self._running
        module = running[-1] if running else ""
        phase = "optimizer" if self._stepping and not running else "forward"
        where: tuple[Any, ...] = (None, 0, module, phase) if frame is None else (code, frame.f_lasti, module, phase)
        position = tuple.__new__(Position, where)
        if torch.is_grad_enabled():
            forward = self._forward
            forward.setdefault(torch_seam.next_sequence_number() - 1, position)
            if len(forward) > _MOST_FORWARD:
                for number in list(forward)[: _MOST_FORWARD // 2]:
                    forward.pop(number, None)
        return position

    @property
    def _running(self) -> list[str]:  # type: ignore[override]
        """Paths of the modules whose forward is running on this thread."""
        try:
            return self._local.running  # type: ignore[no-any-return]
        except AttributeError:
            self._local.running = []
            return self._local.running  # type: ignore[no-any-return]

    @_running.setter
    def _running(self, paths: list[str]) -> None:
        self._local.running = paths

    def _enter_module(self, module: torch.nn.Module, args: Any) -> None:
        running = self._running
        path = self._names.get(module)
        if path is None:
            if running:
                path = running[-1]
            else:
                for name, child in module.named_modules():
                    self._names.setdefault(child, name)
                path = self._names[module]
        running.append(path)

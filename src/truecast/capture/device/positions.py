"""Where the program asks for an operation of the device: a Tracker for a whole process.

A recording ends; the device does not. So this one installs no hooks, keeps no module alive, and forgets forward
operations whose backward is long past. Module paths are looked up only under a policy that asks for them.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

import torch

from truecast.capture import torch_seam
from truecast.capture.position import Position, Tracker, position_of
from truecast.sites import is_framework_file

_MOST_FORWARD = 1 << 18  # forward operations remembered for their backward: the older half goes first
_MODULE_CALL = torch.nn.Module._call_impl.__code__


class DeviceTracker(Tracker):
    def __init__(self) -> None:
        super().__init__()
        self.with_modules = False
        self._last_number = -1
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()

    def here(self, inner: int = 0) -> Position:
        """The position of the operation being dispatched. inner: frames above the caller's that are surely truecast's;
        each that is looked at costs 0.1 us."""
        frame: Any = sys._getframe(inner + 2)
        node = torch_seam.current_autograd_node()
        if node is not None:
            return self._in_backward(node, frame)
        known = self._framework
        while frame is not None:
            code = frame.f_code
            framework = known.get(code.co_filename)
            if framework is None:
                framework = known[code.co_filename] = is_framework_file(code.co_filename)
            if not framework:
                break
            frame = frame.f_back
        module = self._module() if self.with_modules else ""
        where: Any = (None, 0, module, "forward") if frame is None else (code, frame.f_lasti, module, "forward")
        position = position_of(where)
        number = torch_seam.next_sequence_number()
        if number != self._last_number:  # as in Tracker.here: only the first operation after a number is drawn
            self._last_number = number
            forward = self._forward
            forward.setdefault(number - 1, position)
            if len(forward) > _MOST_FORWARD:
                for old in list(forward)[: _MOST_FORWARD // 2]:
                    forward.pop(old, None)
        return position

    def _module(self) -> str:
        """The path of the innermost module whose forward is running, from the outermost one on."""
        frame: Any = sys._getframe(1)
        inner: torch.nn.Module | None = None
        outer: torch.nn.Module | None = None
        while frame is not None:
            if frame.f_code is _MODULE_CALL:
                outer = frame.f_locals["self"]
                inner = inner or outer
            frame = frame.f_back
        if inner is None or outer is None:
            return ""
        if inner not in self._names:
            for name, child in outer.named_modules():
                self._names.setdefault(child, name)
        return self._names.get(inner, "")

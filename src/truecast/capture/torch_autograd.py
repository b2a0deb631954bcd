"""The part of the seam to PyTorch's private interfaces that is about its autograd engine (torch >= 2.13, < 2.15).
tests/unit/test_torch_autograd.py holds each private name down.

Backward passes run on the thread that asks for them: the engine makes its threads once, for the devices that it knows
then, and the pjrt device may come later. And the engine lets a Python exception travel through C++ while it is still
set in the interpreter: a hook's, an operation's, one of whatever else Python runs inside of a node. On its way each
node's stream guard asks the device, which is written in Python, for its type; a Python call with an exception set
fails, and a guard that fails ends the process. So the device takes the exception away when it is asked: it is put
aside, and raised where the pass was asked for, when the engine has unwound.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch

_raised = threading.local()
_in_other_threads: list[BaseException] = []  # the engine goes on in threads of its own 60 passes deep inside each other

# The interpreter lets no call return a result while an exception is set: it raises SystemError from that exception.
# int() as a partial's, since the interpreter's own short cuts for calls don't look.
_returns_a_result: Any = functools.partial(int)


class DeviceGuard(torch._C._acc.DeviceGuard):
    """What C++ asks for the type of the device, with an exception set or without."""

    def type_(self) -> Any:
        try:
            _returns_a_result()
        except SystemError as found:
            _put_aside(found.__cause__)
        return torch._C._autograd.DeviceType.PrivateUse1


def _put_aside(error: BaseException | None) -> None:
    assert error is not None
    if not hasattr(_raised, "error"):
        _in_other_threads.append(error)
    elif _raised.error is None:
        _raised.error = error


def own_the_engine() -> None:
    """From now on backward passes run on their own thread and raise what has been put aside in them.

    Rests on torch.autograd._engine_run_backward, through which backward() and grad() go.
    """
    real: Any = torch.autograd._engine_run_backward

    @functools.wraps(real)
    def run(*args: Any, **kwargs: Any) -> Any:
        is_inner = hasattr(_raised, "error")
        outer = _raised.error if is_inner else None
        _raised.error = None
        try:
            with torch.autograd.set_multithreading_enabled(False):
                return real(*args, **kwargs)
        except SystemError as lost:  # the engine's, that an exception was raised and there is none
            error = _raised.error
            if error is None and lost.__cause__ is None and _in_other_threads:
                error = _in_other_threads.pop()
            if error is None:
                raise
        finally:
            if is_inner:
                _raised.error = outer
            else:
                del _raised.error
        raise error

    torch.autograd._engine_run_backward = run

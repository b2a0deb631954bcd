"""The part of the seam to PyTorch's private interfaces that is about its autograd engine (torch >= 2.13, < 2.15).
tests/unit/test_torch_autograd.py holds each private name down.

Backward passes run on the thread that asks for them: the engine makes its threads once, for the devices that it knows
then, and the pjrt device may come later. And an exception that a Python device raises inside of a C++ node must not
travel through the engine: its stream guard would ask Python for the device while the exception is set, and end the
process. It is put aside, the engine is given a result that it refuses, and what was put aside is raised when the pass
has unwound.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

import torch

_raised = threading.local()
_REFUSED = object()  # no tensor: the engine raises an exception of C++


def own_the_engine() -> None:
    """From now on backward passes run on their own thread and raise what `refused` has put aside.

    Rests on torch.autograd._engine_run_backward, through which backward() and grad() go.
    """
    real: Any = torch.autograd._engine_run_backward

    @functools.wraps(real)
    def run(*args: Any, **kwargs: Any) -> Any:
        outer = getattr(_raised, "error", None)
        _raised.error = None
        try:
            with torch.autograd.set_multithreading_enabled(False):
                result = real(*args, **kwargs)
        except Exception:
            if _raised.error is None:
                raise
        finally:
            error, _raised.error = _raised.error, outer
        if error is not None:
            raise error
        return result

    torch.autograd._engine_run_backward = run


def refused(error: Exception) -> Any:
    """What to return instead of raising `error`, from the Python that a C++ node called (`called_by_a_node`)."""
    _raised.error = error
    return _REFUSED


def called_by_a_node(depth: int) -> bool:
    """Whether the frame `depth` above the caller's is the engine's: no Python stands between it and a C++ node."""
    caller = sys._getframe(depth + 1)
    return caller.f_code is torch.autograd.graph._engine_run_backward.__code__


def guarded(hook: Any) -> Any:
    """A tensor's hook that puts aside what it raises; the pass goes on with the gradient as it was."""

    @functools.wraps(hook)
    def call(*args: Any) -> Any:
        try:
            return hook(*args)
        except Exception as error:
            refused(error)
            return None

    return call

"""torch_xla over truecast: the part of its Python interface that scripts use. See docs/torch_xla.md."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from truecast.compat import steps
from truecast.compat.missing import attribute_of
from truecast.compat.placement import XLA

__version__ = "2.9.0+truecast"  # whose interface this is

__getattr__ = attribute_of(__name__)


def device(index: int | None = None) -> torch.device:
    """The XLA device. Raises IndexError for another index than 0."""
    if index:
        raise IndexError(f"device index {index} out of range in {[str(XLA)]}")
    return XLA


def devices() -> list[torch.device]:
    """The devices of this process."""
    return [XLA]


def device_count() -> int:
    """How many devices there are in this process."""
    return 1


def real_devices() -> list[str]:
    """The devices of this process by the kind of their hardware: ["CPU:0"]."""
    from truecast.compat.torch_xla import runtime

    return [f"{runtime.device_type()}:0"]


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """Runs what is pending, then the step's closures; with `wait`, returns when it has been computed."""
    steps.sync(wait)


def step() -> AbstractContextManager[Any]:
    """A block whose operations are one program, run at its end."""
    return compile()


def compile(
    f: Callable[..., Any] | None = None,
    full_graph: bool | None = False,
    name: str | None = None,
    max_different_graphs: int | None = None,
) -> Any:
    """What `f`, or the block without one, records is one program, run at its end; eager mode is off in it.

    full_graph: raise RuntimeError if something had to run before. max_different_graphs: raise RuntimeError for more.
    """

    def region(owner: Any) -> AbstractContextManager[None]:
        return steps.compiled(owner, bool(full_graph), max_different_graphs)

    if f is None:
        return region(None)
    owner = f

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        with region(owner):
            return owner(*args, **kwargs)

    return run


def manual_seed(seed: int, device: Any = None) -> None:
    """Seeds the device's random numbers, which are torch.manual_seed's (law N8)."""
    torch.manual_seed(seed)


def launch(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    start_method: str = "spawn",
    debug_single_process: bool = False,
) -> None:
    """Calls `fn(0, *args)`, in this process: there is one device."""
    fn(0, *args)

"""The device that scripts call "xla".

torch.device("xla") exists in every PyTorch, but nothing is behind it without torch_xla. Here the `pjrt` device is: its
factories answer PyTorch's dispatch key XLA, so that torch.zeros(3, device="xla") costs what it costs on pjrt. What
PyTorch settles before it dispatches (`.to("xla")`, torch.tensor, autocast) is translated by wrapping those functions;
no operation pays for it. While a script is only observed, the CPU stands for the device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from truecast.api.device import device
from truecast.capture import torch_backend
from truecast.capture.device import registration
from truecast.capture.device.tensor import show_as
from truecast.numerics import scope

Place = Literal["pjrt", "cpu"]
XLA = torch.device("xla", 0)

# Constructors that look for a device's C++ guard, which "xla" has none of here, before they dispatch.
_TRANSLATED = ((torch.Tensor, ("to", "new_tensor")), (torch, ("tensor", "as_tensor", "asarray")))
# Functions that take a device type's name.
_NAMED = (
    "is_autocast_enabled",
    "set_autocast_enabled",
    "get_autocast_dtype",
    "set_autocast_dtype",
)
_serving = False


@contextmanager
def placed(place: Place) -> Iterator[None]:
    """Within the block "xla" is a device that works: `pjrt`, or the CPU."""
    real = device() if place == "pjrt" else torch.device("cpu")
    with ExitStack() as stack:
        stack.enter_context(_autocast_as(real.type))
        if place == "cpu":
            stack.enter_context(_OnCpu())
        else:
            _serve()
            stack.enter_context(_wrapped(real))
            show_as(XLA)
            stack.callback(show_as, real)
        yield


def is_xla(named: Any) -> bool:
    """Whether a device or a device's name is "xla". Raises RuntimeError for another index than 0."""
    if isinstance(named, str):
        if named.partition(":")[0] != "xla":
            return False
        named = torch.device(named)
    if not isinstance(named, torch.device) or named.type != "xla":
        return False
    _refuse_index(named)
    return True


def _refuse_index(named: torch.device) -> None:
    if named.index:
        raise RuntimeError(f"invalid device ordinal: {named}. There is one XLA device in a process, xla:0")


def _serve() -> None:
    """The factories of the `pjrt` device answer for XLA as well; once in a process, since PyTorch keeps them."""
    global _serving
    if not _serving:
        _serving = True
        torch_backend.register_kernels({name: _checked(make) for name, make in registration.factories().items()}, "XLA")


def _checked(make: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if (named := kwargs.get("device")) is not None:
            _refuse_index(named)
        return make(*args, **kwargs)

    return call


@contextmanager
def _wrapped(real: torch.device) -> Iterator[None]:
    def translating(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if (named := kwargs.get("device")) is not None and is_xla(named):
                kwargs["device"] = real
            for position in range(len(args)):
                if type(args[position]) in (str, torch.device) and is_xla(args[position]):
                    args = (*args[:position], real, *args[position + 1 :])
            return function(*args, **kwargs)

        return call

    with ExitStack() as stack:
        torch_backend.remember_constructors()
        for owner, names in _TRANSLATED:
            for name in names:
                stack.enter_context(patch.object(owner, name, translating(getattr(owner, name))))
        stack.enter_context(torch_backend.default_devices_as(lambda d: XLA if is_xla(d) else d))
        stack.enter_context(patch.object(torch, "xla", torch.get_device_module(real), create=True))
        yield


class _OnCpu(TorchFunctionMode):
    """Every "xla" among the arguments of a function is the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        here = torch.device("cpu")
        args, kwargs = pytree.tree_map(lambda a: here if is_xla(a) else a, (args, kwargs or {}))
        return func(*args, **kwargs)


@contextmanager
def _autocast_as(real: str) -> Iterator[None]:
    """torch.autocast("xla") is a region of the real device; on `pjrt` with torch_xla's own list (law N10)."""

    def renaming(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            args = tuple([real if type(a) is str and a == "xla" else a for a in args])
            return function(*args, **{k: real if type(v) is str and v == "xla" else v for k, v in kwargs.items()})

        return call

    cls = torch.amp.autocast_mode.autocast
    construct, enter, leave = cls.__init__, cls.__enter__, cls.__exit__

    @functools.wraps(construct)
    def initialise(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        self._truecast_lists = [] if device_type == "xla" else None
        construct(self, real if device_type == "xla" else device_type, *args, **kwargs)

    def __enter__(self: Any) -> Any:
        if self._truecast_lists is not None:
            self._truecast_lists.append(scope.autocast_lists_of("xla"))
        return enter(self)

    def __exit__(self: Any, *raised: Any) -> Any:
        if self._truecast_lists is not None:
            self._truecast_lists.pop()()
        return leave(self, *raised)

    with ExitStack() as stack:
        for name, method in (("__init__", initialise), ("__enter__", __enter__), ("__exit__", __exit__)):
            stack.enter_context(patch.object(cls, name, method))
        for name in _NAMED:
            stack.enter_context(patch.object(torch, name, renaming(getattr(torch, name))))
        yield

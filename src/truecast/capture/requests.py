"""What a program asks for in matters of precision that is no operation: autocast regions, precision flags, gradient
scaling, custom autograd Functions, numbers from NumPy.

`Requests` listens while it is entered, by standing before the public functions and methods concerned, and keeps what
`Observations` tells. It changes nothing of what they do.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import torch

from truecast import dtypes, sites
from truecast.capture.position import Tracker
from truecast.observations import CustomFunction, Flag, NumpyBirth, Region, ScalerEvent
from truecast.sites import Site

_Function: Any = torch.autograd.Function
_WIDE = (torch.float64, torch.complex128)
# Who enters a region on the program's behalf; other frames of PyTorch's repeat a region that the program asked for.
_DECORATED = "decorate_autocast"


class Requests:
    """region: the index of the innermost autocast region that the program asked for. function: the custom Function
    whose forward is running. scaled: whether gradients wait for a scaler to unscale them."""

    def __init__(self, tracker: Tracker, made_by_numpy: Callable[[torch.Tensor, NumpyBirth], None]) -> None:
        self.regions: list[Region] = []
        self.flags: list[Flag] = []
        self.scaling: list[ScalerEvent] = []
        self.functions: dict[str, CustomFunction] = {}
        self.region = -1
        self.function = ""
        self.scaled = False
        self._tracker, self._made_by_numpy = tracker, made_by_numpy
        self._inside: list[int] = []  # the regions around, outermost first
        self._in_scaler = 0
        self._listeners = ExitStack()

    def __enter__(self) -> Requests:
        for owner, name, listener in self._table():
            self._listeners.enter_context(patch.object(owner, name, listener))
        return self

    def __exit__(self, *error: object) -> None:
        self._listeners.close()

    def _table(self) -> Iterator[tuple[Any, str, Any]]:
        autocast, scaler = torch.autocast, torch.amp.GradScaler
        yield autocast, "__init__", _after(autocast.__init__, self._autocast_made)
        yield autocast, "__enter__", _after(autocast.__enter__, self._region_begins)
        yield autocast, "__exit__", _after(autocast.__exit__, self._region_ends)
        yield scaler, "__init__", _after(scaler.__init__, self._scaler_made)
        for name in ("scale", "unscale_", "step", "update"):
            yield scaler, name, self._scaling(name.rstrip("_"), getattr(scaler, name))
        yield _Function, "apply", classmethod(self._applying(_Function.apply.__func__))
        yield torch, "from_numpy", _after(torch.from_numpy, self._from_numpy)
        yield torch, "set_float32_matmul_precision", _after(torch.set_float32_matmul_precision, self._precision_set)
        for module, path in (
            (torch.backends.cuda.matmul, "torch.backends.cuda.matmul"),
            (torch.backends.cudnn, "torch.backends.cudnn"),
        ):
            cls: Any = type(module)
            yield cls, "__setattr__", _after(cls.__setattr__, functools.partial(self._flag_set, path))

    # -- autocast ----------------------------------------------------------------------------------------------

    def _autocast_made(
        self, _: Any, region: Any, device_type: str, dtype: Any = None, enabled: bool = True, *rest: Any, **named: Any
    ) -> None:
        region.truecast_asked = bool(enabled)

    def _region_begins(self, _: Any, region: Any) -> None:
        frame = sys._getframe(2)
        index = -1
        own = not sites.is_framework_file(frame.f_code.co_filename) or frame.f_code.co_name == _DECORATED
        if own and getattr(region, "truecast_asked", region._enabled):
            index = len(self.regions)
            dtype = None if region.fast_dtype is None else dtypes.of(region.fast_dtype)
            self.regions.append(Region(_site(frame), region.device, dtype, bool(region._enabled)))
        self._inside.append(index)
        self.region = index

    def _region_ends(self, *_: Any) -> None:
        if self._inside:  # it may have begun before this listened
            self._inside.pop()
        self.region = self._inside[-1] if self._inside else -1

    # -- gradient scaling --------------------------------------------------------------------------------------

    def _scaler_made(self, _: Any, scaler: Any, *args: Any, **named: Any) -> None:
        enabled = named.get("enabled", args[5] if len(args) > 5 else True)
        scaler.truecast_asked = bool(enabled)

    def _scaling(self, what: Any, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def listener(scaler: Any, *args: Any, **named: Any) -> Any:
            if not self._in_scaler:
                optimizer = args[0] if args and isinstance(args[0], torch.optim.Optimizer) else None
                asked, enabled = getattr(scaler, "truecast_asked", True), scaler.is_enabled()
                site = _site(sys._getframe(1))
                self.scaling.append(ScalerEvent(what, site, asked, enabled, self._half_parameters(optimizer)))
                self.scaled = what == "scale" and enabled
            self._in_scaler += 1
            try:
                return method(scaler, *args, **named)
            finally:
                self._in_scaler -= 1

        return listener

    def _half_parameters(self, optimizer: torch.optim.Optimizer | None) -> tuple[str, ...]:
        if optimizer is None:
            return ()
        found = [p for g in optimizer.param_groups for p in g["params"] if p.dtype is torch.float16 and p.requires_grad]
        return tuple(self._tracker.tensors.get(id(p), ("", ""))[1] for p in found)

    def gradient_written(self, site: Site) -> None:
        """The program wrote into a gradient while `scaled`."""
        self.scaling.append(ScalerEvent("change", site))

    def optimizer_steps(self, site: Site) -> None:
        """An optimizer's step begins."""
        if self.scaled and not self._in_scaler:
            self.scaling.append(ScalerEvent("optimizer", site))

    # -- custom Functions, NumPy, flags ------------------------------------------------------------------------

    def _applying(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(apply)
        def listener(cls: Any, *args: Any, **named: Any) -> Any:
            outer = self.function
            self.function = self.noted(cls, sys._getframe(1))
            try:
                return apply(cls, *args, **named)
            finally:
                self.function = outer

        return listener

    def noted(self, cls: Any, frame: FrameType) -> str:
        """The name of a custom Function; "" for one of PyTorch's own (checkpointing)."""
        if str(cls.__module__).partition(".")[0] == "torch":
            return ""
        name = str(cls.__qualname__).rsplit("<locals>.", 1)[-1]
        if name not in self.functions:
            self.functions[name] = CustomFunction(name, _site(frame), _has_policy(cls.forward))
        return name

    def _from_numpy(self, result: torch.Tensor, array: Any) -> None:
        if result.dtype in _WIDE:
            self._made_by_numpy(result, NumpyBirth("a NumPy array", _site(sys._getframe(2))))

    def tensor_made(self, result: Any, args: tuple[Any, ...], frame: FrameType) -> None:
        """`torch.tensor`, `as_tensor` or `asarray` returned."""
        form = numpy_form(args[0]) if args else ""
        if form and isinstance(result, torch.Tensor) and result.dtype in _WIDE:
            self._made_by_numpy(result, NumpyBirth(form, _site(frame)))

    def _precision_set(self, _: Any, precision: str) -> None:
        self._flag("torch.set_float32_matmul_precision", precision, sys._getframe(2))

    def _flag_set(self, path: str, _: Any, module: Any, name: str, value: Any) -> None:
        self._flag(f"{path}.{name}", value, sys._getframe(2))

    def _flag(self, name: str, value: Any, frame: FrameType) -> None:
        if not sites.is_framework_file(frame.f_code.co_filename):
            self.flags.append(Flag(name, str(value), _site(frame)))


def numpy_form(number: Any) -> str:
    """ "a NumPy array", "a NumPy scalar", or "" for another object (NumPy is not imported for it)."""
    if type(number).__module__ != "numpy":
        return ""
    return "a NumPy array" if type(number).__name__ == "ndarray" else "a NumPy scalar"


def _after(function: Callable[..., Any], told: Callable[..., None]) -> Callable[..., Any]:
    """`function`, after which `told` is called with its result and its arguments. The caller is `told`'s frame 2."""

    @functools.wraps(function)
    def listener(*args: Any, **named: Any) -> Any:
        result = function(*args, **named)
        told(result, *args, **named)
        return result

    return listener


def _site(frame: FrameType) -> Site:
    user = sites.user_frame(frame)
    return sites.UNKNOWN if user is None else sites.resolve(user.f_code, user.f_lasti)


def _has_policy(method: Any) -> bool:
    """Whether custom_fwd is among a method's decorators."""
    while method is not None:
        code: CodeType | None = getattr(method, "__code__", None)
        if code is not None and code.co_name == "decorate_fwd":
            return True
        method = getattr(method, "__wrapped__", None)
    return False

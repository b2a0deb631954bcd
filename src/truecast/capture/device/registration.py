"""Makes `torch.device("pjrt")`: the backend's name, its module `torch.pjrt`, its factories.

PyTorch's seam for a backend in pure Python; see torch_backend.register_backend.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

import torch

from truecast import settings
from truecast.capture import torch_autograd, torch_backend, torch_inductor, torch_modules, torch_seam
from truecast.capture.device import autocast, composites, convolution, handlers, making, storage
from truecast.capture.device.between import refuse_index
from truecast.capture.device.checks import Guards
from truecast.capture.device.dispatch import emit_spec, fresh
from truecast.capture.device.generator import PjrtGenerator
from truecast.capture.device.held import refuse_unheld
from truecast.capture.device.host import Host
from truecast.capture.device.positions import DeviceTracker
from truecast.capture.device.state import state
from truecast.capture.device.tape import Executor, Tape
from truecast.capture.device.tensor import PjrtTensor
from truecast.capture.device.values import Meta, Spec, dense_strides
from truecast.ops.schema import overload

NAME = "pjrt"


class DeviceModule:
    """`torch.pjrt`: what PyTorch and user programs ask of a device's module."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def set_device(self, device: Any) -> None:
        refuse_index(torch.device(f"{NAME}:{device}") if isinstance(device, int) else torch.device(device))

    def device(self, device: Any) -> Any:
        """A block on that device: there is one."""
        self.set_device(device)
        return contextlib.nullcontext()

    def get_device_name(self, device: Any = None) -> str:
        return NAME

    def empty_cache(self) -> None:
        """Memory that no tensor holds has been given back already."""

    def synchronize(self, device: Any = None) -> None:
        state.tape.run()
        state.tape.wait()

    def manual_seed(self, seed: int) -> None:
        torch.random.default_generator.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """torch.manual_seed has seeded the CPU generator already; the device draws from that one (law N8)."""

    def get_rng_state(self, device: Any = NAME) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, new_state: torch.Tensor, device: Any = NAME) -> None:
        torch.set_rng_state(new_state)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def _is_in_bad_fork(self) -> bool:
        return False


def register(executor: Executor, autocast_names: Iterable[str], autocast_list: autocast.Lists) -> torch.device:
    """Registers the device, once in a process. autocast_names: all that any list knows; autocast_list: the policy's."""
    torch_backend.register_backend(NAME, DeviceModule(), torch_autograd.DeviceGuard())
    state.device = state.shown = torch.device(NAME, 0)
    state.tape = Tape(executor)
    state.guards = Guards()
    state.tape.eager = settings.eager()
    state.tracker = DeviceTracker()
    state.tape.on_places = _look_at_modules
    state.dispatch = handlers.dispatch
    state.host = Host(state.tape)
    torch_backend.register_kernels(factories())
    torch_backend.register_kernels({"_copy_from": _copy_from})
    torch_backend.register_kernels({"_pin_memory": _pin_memory}, "CPU")
    torch_backend.storages_by(storage.make, NAME)
    torch_backend.generators_by(PjrtGenerator, NAME)
    torch_backend.register_kernels(convolution.kernels() | composites.kernels(), "AutogradPrivateUse1")
    for key in ("PrivateUse1", "AutogradPrivateUse1"):
        torch_backend.register_kernels(handlers.out_kernels(), key)
    torch_backend.pass_autocast_by()
    torch.set_autocast_dtype(NAME, torch.bfloat16)
    casting = {name: func for name in autocast_names if (func := _overload(name)) is not None}
    kernels = {name: autocast.kernel(func, name, autocast_list) for name, func in casting.items()}
    torch_backend.register_kernels(kernels, "AutocastPrivateUse1")
    torch_autograd.own_the_engine()
    torch_modules.keep_parameters(_crosses, ("_meta", "_alias"))
    torch_inductor.leave_to_the_device(NAME)
    state.registered = True
    atexit.register(_wait_at_exit)
    return state.device


def _wait_at_exit() -> None:
    """What has been started ends before the interpreter does: XLA's threads give memory back to Python when they are
    done, and a thread that wants the interpreter while it ends takes the process down with it."""
    if os.getpid() == state.host.process:
        state.tape.wait()


def factories() -> dict[str, Callable[..., Any]]:
    """The kernels that make tensors of the device out of none, by overload."""
    made = {name: _factory(_whole_name(name)) for name in _FACTORIES}
    windows = {name: functools.partial(_uploaded, overload(_whole_name(name))) for name in _WINDOWS}
    empties: dict[str, Callable[..., Any]] = {
        "empty.memory_format": _empty,
        "empty_strided": _empty_strided,
        "_efficientzerotensor": _empty,
    }
    return {**empties, **windows, **made}


def _whole_name(name: str) -> str:
    return f"aten.{name}" if "." in name else f"aten.{name}.default"


def _crosses(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Whether a conversion goes onto the device or off it."""
    return isinstance(before, PjrtTensor) is not isinstance(after, PjrtTensor)


def _look_at_modules(wanted: bool) -> None:
    state.tracker.with_modules = wanted


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """copy_ where PyTorch has put Python's dispatch key aside, as in torch.tensor(..., device="pjrt")."""
    copied: torch.Tensor = handlers.dispatch(torch.ops.aten.copy_.default, (target, source), {})
    return copied


def _pin_memory(tensor: torch.Tensor, device: torch.device | None = None) -> torch.Tensor:
    """The device reads any memory of the CPU."""
    return tensor.clone()


def _overload(name: str) -> Any:
    """The overload that an autocast list calls "conv2d" or "conv2d.padding"; None if this PyTorch has none such."""
    packet, _, variant = name.partition(".")
    found = getattr(torch.ops.aten, packet, None)
    return getattr(found, variant or "default", None)


# Factories that PyTorch makes by resizing an empty tensor, or knows on its own devices only. The others are made of
# `empty` and an operation that fills it.
_FACTORIES = [
    "arange",
    "arange.start",
    "arange.start_step",
    "range",
    "range.step",
    "linspace",
    "logspace",
    "eye",
    "eye.m",
    "randperm",
    "tril_indices",
    "triu_indices",
]


# Those whose numbers PyTorch has a kernel for on each of its own devices: the CPU's are brought.
_WINDOWS = ("kaiser_window", "kaiser_window.periodic", "kaiser_window.beta")


def _uploaded(func: Any, *args: Any, dtype: torch.dtype | None = None, **placement: Any) -> PjrtTensor:
    refuse_index(placement.get("device"))
    with torch_seam.without_modes():
        made = func(*args, dtype=dtype, device=torch.device("cpu"))
    return state.host.upload(made)


def _factory(op: str) -> Callable[..., Any]:
    handle = making.functional(overload(op))
    func = overload(op)

    def make(*args: Any, dtype: torch.dtype | None = None, **placement: Any) -> Any:
        refuse_index(placement.get("device"))
        given = {"dtype": dtype} if dtype is not None else {}
        if placement.get("generator") is not None:
            given["generator"] = placement["generator"]
        with state.tape.lock:
            state.tape.turn()
            return handle(func, args, given)

    return make


def _empty(
    size: Any, dtype: torch.dtype | None = None, memory_format: torch.memory_format | None = None, **placement: Any
) -> PjrtTensor:
    refuse_index(placement.get("device"))
    shape = tuple(size)
    strides = dense_strides(shape)
    if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
        strides = torch.empty(shape, device="meta", memory_format=memory_format).stride()
    return _filled(shape, strides, dtype)


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype | None = None, **placement: Any) -> PjrtTensor:
    refuse_index(placement.get("device"))
    return _filled(tuple(size), tuple(stride), dtype)


def _filled(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype | None) -> PjrtTensor:
    """Memory that nobody has written yet holds zeros: what PyTorch leaves undefined is defined here."""
    meta = Meta.of(dtype or torch.get_default_dtype(), shape, strides)
    spec = _empties.get(meta)
    if spec is None:
        refuse_unheld(meta.dtype, "a tensor made on the pjrt device has dtype", state.tracker.here().site())
        spec = _empties[meta] = Spec("aten.full.default", (shape, 0), (("dtype", meta.dtype),), (), (meta,))
    with state.tape.lock:
        state.tape.turn()
        return fresh(meta, emit_spec(spec, ()))


_empties: dict[Meta, Spec] = {}

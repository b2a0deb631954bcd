"""The part of the seam to PyTorch's private interfaces that makes a backend in Python (torch >= 2.13, < 2.15).
tests/unit/test_torch_seam.py holds each name down.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import torch

# new_wrapper(cls, size, strides, storage_offset, memory_format, dtype, layout, device). By position: matching keywords
# takes a quarter of its microsecond.
new_wrapper: Callable[..., Any] = torch.Tensor._make_wrapper_subclass

# Rebuilds a tensor from CPU contents on a device: (tensor, dtype, device, requires_grad); plain PyTorch has it.
rebuild_from_cpu: Callable[..., Any] = torch._utils._rebuild_device_tensor_from_cpu_tensor

# Makes a parameter of a tensor: (tensor, requires_grad, backward hooks).
rebuild_parameter: Callable[..., Any] = torch._utils._rebuild_parameter


def composite_explicit(func: Any) -> Callable[..., Any] | None:
    """PyTorch's definition of an overload by others, without autograd; None if it has none."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeExplicitAutograd"):
        return None
    return functools.partial(func._op_dk, torch._C.DispatchKey.CompositeExplicitAutograd)


def new_storage(cls: Any, *arguments: Any) -> Any:
    """An UntypedStorage of a subclass, in the CPU's memory."""
    return torch._C.StorageBase.__new__(cls, *arguments)


def storages_by(make: Callable[..., Any], device_type: str) -> None:
    """torch.UntypedStorage(..., device=d) is `make(...)` for devices of this type, from now on."""

    def new(cls: Any, *arguments: Any, device: Any = None, **named: Any) -> Any:
        if device is not None and torch.device(device).type == device_type:
            return make(*arguments)
        placed = {} if device is None else {"device": device}
        return torch._C.StorageBase.__new__(cls, *arguments, **placed, **named)

    torch.UntypedStorage.__new__ = new


PlainGenerator: Any = torch._C.Generator  # torch.Generator, until generators_by


def generators_by(make: Callable[[], Any], device_type: str) -> None:
    """torch.Generator(d) is `make()` for devices of this type, from now on: PyTorch would ask a hook that only C++ can
    give it. The name stands for a class that has all generators as instances."""

    kind: Any = type(PlainGenerator)

    class Named(kind):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, PlainGenerator) if cls is Generator else super().__instancecheck__(value)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, PlainGenerator) if cls is Generator else super().__subclasscheck__(other)

    class Generator(PlainGenerator, metaclass=Named):
        def __new__(cls, device: Any = "cpu") -> Any:
            if cls is not Generator:
                return PlainGenerator.__new__(cls, device)
            return make() if torch.device(device).type == device_type else PlainGenerator(device)

    Generator.__module__, Generator.__doc__ = PlainGenerator.__module__, PlainGenerator.__doc__
    torch.Generator = Generator


def remember_constructors() -> None:
    """torch.set_default_device knows constructors by identity: it is to know PyTorch's own, not what wraps them."""
    from torch.utils._device import _device_constructors

    _device_constructors()


@contextmanager
def default_devices_as(translated: Callable[[Any], Any]) -> Iterator[None]:
    """While active, torch.set_default_device(d) and `with d:` take `translated(d)` for d."""
    from torch.utils._device import DeviceContext

    real: Callable[[Any, Any], None] = DeviceContext.__init__

    def construct(self: Any, device: Any) -> None:
        real(self, translated(device))

    with patch.object(DeviceContext, "__init__", construct):
        yield


def composite_implicit(func: Any) -> Callable[..., Any]:
    """PyTorch's definition of an overload by other operations that autograd sees."""
    return functools.partial(func._op_dk, torch._C.DispatchKey.CompositeImplicitAutograd)


def register_backend(name: str, module: Any, guard: Any) -> None:
    """Gives PrivateUse1 a name, a device module, and the guards and hooks that a backend has in C++."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(name, module, device_guard=guard)


_libraries: list[Any] = []


def register_kernels(kernels: dict[str, Callable[..., Any]], key: str = "PrivateUse1") -> None:
    """Kernels of the backend by overload ("eye.m"): for those that have no tensor argument to dispatch on, or, with the
    key AutocastPrivateUse1, for those that autocast knows."""
    library = torch.library.Library("aten", "IMPL")
    for name, kernel in kernels.items():
        library.impl(name, kernel, key)
    _libraries.append(library)


def pass_autocast_by() -> None:
    """An operation of the backend that has no kernel of its own for autocast is left alone by it."""
    library = torch.library.Library("_", "IMPL")
    library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    _libraries.append(library)


def without_autocast() -> AbstractContextManager[Any]:
    """Operations of the backend pass autocast by."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
    return torch._C._ExcludeDispatchKeyGuard(keys)

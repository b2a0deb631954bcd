"""Where capture/ touches PyTorch's private interfaces (torch >= 2.13, < 2.15): here what every recording needs,
beside it fake tensors (torch_fake.py), export and compile, the backend, autograd, modules.

Each function says which private name it rests on; tests/unit/test_torch_seam.py holds every one of them down,
so that a new release of PyTorch shows here, not as a wrong Graph. Schemas have a seam of their own: ops/schema.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = ["TorchDispatchMode"]

# The autograd node being run by the engine on this thread, None outside of it. Its `_sequence_nr()` is n where
# `next_sequence_number()` was n + 1 as the forward operation was dispatched.
current_autograd_node: Callable[[], Any] = torch._C._current_autograd_node

next_sequence_number: Callable[[], int] = torch.autograd._get_sequence_nr


def storage_key(tensor: torch.Tensor) -> int:
    """An identifier of the memory behind a tensor, fake or real: unique while the memory lives, or while
    `hold_storage` holds it (the address of its StorageImpl)."""
    return tensor.untyped_storage()._cdata


def hold_storage(tensor: torch.Tensor) -> tuple[int, int]:
    """`storage_key(tensor)`, and what keeps it from being used again without keeping the memory: a weak reference
    to be given to `release_storages`."""
    storage = tensor.untyped_storage()
    return storage._cdata, storage._weak_ref()


def release_storages(held: list[int]) -> None:
    """Gives up what `hold_storage` returned."""
    for reference in held:
        torch.UntypedStorage._free_weak_ref(reference)


# As `without_modes`, for operations on tensors that have no dispatch of their own: a tenth of its cost.
below_modes: Callable[[], AbstractContextManager[Any]] = torch._C._DisableTorchDispatch


def tensors_in(arguments: Any) -> list[torch.Tensor]:
    """The tensors in a nest of lists, tuples and dicts."""
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]


def without_modes() -> AbstractContextManager[Any]:
    """Runs ATen itself: no dispatch mode, ours or another, sees what happens inside."""
    return _disable_current_modes()


def autocast_region() -> tuple[torch.dtype | None, str]:
    """The dtype and device type of the autocast region that is active, (None, "") outside of any. Ask outside of a
    dispatch mode's handler, where autocast is off."""
    if not torch._C._is_any_autocast_enabled():
        return None, ""
    for device_type in _autocast_devices():
        if torch.is_autocast_enabled(device_type):
            return torch.get_autocast_dtype(device_type), device_type
    return None, ""


@functools.cache
def _autocast_devices() -> tuple[str, ...]:
    own = torch._C._get_privateuse1_backend_name()
    return ("cpu", "cuda", "xpu", "mps", "xla", "hpu", *(() if own == "privateuseone" else (own,)))


@functools.cache
def is_implicit_composite(func: Any) -> bool:
    """Whether PyTorch defines the overload only by other operations (CompositeImplicitAutograd)."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


def is_overload(func: Any) -> bool:
    """False for higher-order operations (cond, scan, flex_attention), which take functions as arguments."""
    return isinstance(func, torch._ops.OpOverload)


_PLAIN_CLASSES: dict[type, bool] = {torch.Tensor: True, torch.nn.Parameter: True}


def is_plain_tensor_class(cls: type) -> bool:
    """Whether operations on the class do what they do on torch.Tensor: it has no dispatch of its own."""
    plain = _PLAIN_CLASSES.get(cls)
    if plain is None:
        own = getattr(cls, "__torch_dispatch__", None)
        ordinary = (None, torch._C._disabled_torch_dispatch_impl, torch.Tensor.__torch_dispatch__)
        plain = _PLAIN_CLASSES[cls] = own in ordinary
    return plain


@functools.cache
def core_decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions of ATen into the core operations, by overload."""
    from torch._decomp import core_aten_decompositions

    return dict(core_aten_decompositions().items())


@contextmanager
def optimizer_hooks(before: Callable[..., None], after: Callable[..., None]) -> Iterator[None]:
    """Calls `before` and `after` (optimizer, args, kwargs) around every Optimizer.step in the process."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    handles = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def module_hooks(before: Callable[..., None], after: Callable[..., None]) -> Iterator[None]:
    """Calls `before` (module, args) and `after` (module, args, result), even if it raised, around every forward."""
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    handles = [register_module_forward_pre_hook(before), register_module_forward_hook(after, always_call=True)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@functools.cache
def default_decompositions() -> dict[Any, Callable[..., Any]]:
    """What torch.export decomposes by default: the core decompositions and the implicit composites."""
    from torch.export import default_decompositions as default

    return dict(default().items())


def decides_precision(function: Callable[..., Any]) -> bool:
    """Whether a decomposition of PyTorch's converts its operands to a compute dtype of its own choice: one of the
    wrappers `type_casts` (pw_cast_for_opmath) and `elementwise_type_promotion_wrapper`, or a call of
    `get_computation_dtype` in its body."""
    current: Any = function
    while current is not None:
        code = getattr(current, "__code__", None)
        if code is not None:
            if "type_casts" in code.co_qualname or "elementwise_type_promotion_wrapper" in code.co_qualname:
                return True
            if _names_in(code) & {"get_computation_dtype", "compute_dtype", "computation_dtype"}:
                return True
        current = getattr(current, "__wrapped__", None)
    return False


def _names_in(code: Any) -> set[str]:
    nested = (_names_in(c) for c in code.co_consts if hasattr(c, "co_names"))
    return {*code.co_names, *code.co_varnames}.union(*nested)

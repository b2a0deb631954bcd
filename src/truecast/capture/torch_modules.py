"""The part of the seam to PyTorch's private interfaces that is about modules: what `.to`, `.cpu()` and their like do to
parameters (torch >= 2.13, < 2.15). tests/unit/test_torch_modules.py holds each private name down.

Between the CPU and CUDA a conversion gives a Parameter object other data, so tied weights stay tied and an optimizer
keeps its parameters. PyTorch can't do that with tensors of a Python class and would make new Parameter objects.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

_Crosses = Callable[[torch.Tensor, torch.Tensor], bool]


def keep_parameters(crosses: _Crosses, own: Collection[str]) -> None:
    """From now on a module's parameter, and its .grad, stay the objects that they are in every conversion where
    `crosses(before, after)`. Other conversions are PyTorch's, under whatever flags of torch.__future__ are set.

    own: the attributes of a tensor that belong to what is behind it, not to the object that the program holds.
    Rests on nn.Module._apply, through which all conversions go, and which applies the function that it is given to the
    parameter before it looks at anything else of it.
    """
    real: Any = nn.Module._apply

    @functools.wraps(real)
    def _apply(self: nn.Module, fn: Any, recurse: bool = True) -> nn.Module:
        plain = fn.function if isinstance(fn, _Conversion) else fn
        overwrites = torch.__future__.get_overwrite_module_params_on_conversion()  # asks for new parameters
        scripted = not isinstance(self._parameters, dict)  # a view of what a module in C++ holds
        function = plain if overwrites or scripted else _Conversion(plain, crosses, own)
        converted: nn.Module = real(self, function, recurse)
        return converted

    nn.Module._apply = _apply
    for kind in (UninitializedParameter, UninitializedBuffer):
        _make_elsewhere(kind, crosses, own)


class _Conversion:
    """The function of one module's conversion. It returns the parameter that it has exchanged already, whose `.data`
    PyTorch then sets to itself."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], crosses: _Crosses, own: Collection[str]):
        self.function, self.crosses, self.own = function, crosses, own
        self._converted: torch.Tensor | None = None  # the .grad of the parameter before: PyTorch asks for it next

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor is self._converted:
            self._converted = None
            return tensor
        if is_lazy(tensor):
            return _converted_lazy(tensor, self.function, self.crosses, self.own)
        after = self.function(tensor)
        if not _is_plain_parameter(tensor) or not self.crosses(tensor, after):
            return after
        grad = tensor.grad
        grad_after = None if grad is None else self.function(grad)
        exchange(tensor, nn.Parameter(after, tensor.requires_grad), self.own)
        if grad is not None and grad_after is not None:
            exchange(grad, grad_after.detach().requires_grad_(grad.requires_grad), self.own)
            tensor.grad = self._converted = grad
        return tensor


def _is_plain_parameter(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, nn.Parameter) and tensor.is_leaf


# ---- parameters and buffers of lazy modules, which have no shape yet ---------------------------------------------


class _WaitingElsewhere:
    """What a lazy module's parameter or buffer is while it waits for its shape to be made on a device whose tensors are
    of a Python class: it holds no data, and PyTorch can't have it hold such a tensor's."""

    device: torch.device
    _plain: type  # what PyTorch has in its place
    _made: Callable[[torch.Tensor, bool], torch.Tensor]

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """The object becomes a tensor of that shape, on its device."""
        made = torch.empty(shape, device=device or self.device, dtype=dtype or self.data.dtype)
        made, own = self._made(made, self.requires_grad), self._own
        self._leave()
        self.__class__ = self.cls_to_become
        exchange(self, made, own)

    def _leave(self: Any) -> None:
        """The object is PyTorch's own again, on the CPU."""
        self.__class__ = self._plain
        del self.__dict__["_waits_for"], self.__dict__["_own"]

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copied = self._plain(self.requires_grad, torch.device("cpu"), self.data.dtype)
            for name, value in self.__dict__.items():
                setattr(copied, name, value)
            copied.__class__ = type(self)
            memo[id(self)] = copied
        return memo[id(self)]

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return self._plain, (self.requires_grad,)


class _WaitingParameter(_WaitingElsewhere, UninitializedParameter):
    _plain = UninitializedParameter
    _made = staticmethod(nn.Parameter)
    device = property(lambda self: self._waits_for)


class _WaitingBuffer(_WaitingElsewhere, UninitializedBuffer):
    _plain = UninitializedBuffer
    _made = staticmethod(lambda made, requires_grad: made.requires_grad_(requires_grad))
    device = property(lambda self: self._waits_for)


def _converted_lazy(
    tensor: Any, function: Callable[[torch.Tensor], torch.Tensor], crosses: _Crosses, own: Collection[str]
) -> torch.Tensor:
    """The conversion of a parameter or buffer without a shape: the same object, which knows where it is to be made."""
    waits = isinstance(tensor, _WaitingElsewhere)
    before = torch.empty(0, dtype=tensor.data.dtype, device=tensor.device)
    after = function(before)
    if not waits and not crosses(before, after):
        converted: torch.Tensor = function(tensor)
        return converted
    if waits:
        tensor._leave()
    tensor.data = torch.empty(0, dtype=after.dtype, device="cpu")
    if crosses(tensor.data, after):
        _wait(tensor, after.device, own)
    elif after.device.type != "cpu":
        tensor.data = after
    return tensor


def _make_elsewhere(kind: Any, crosses: _Crosses, own: Collection[str]) -> None:
    """From now on `kind(device=...)` can be of such a device: nn.LazyLinear(4, device="pjrt")."""
    real = kind.__new__
    signature = inspect.signature(real)

    @functools.wraps(real)
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(cls, *args, **kwargs).arguments
        asked = torch.empty(0, device=given.get("device"), dtype=given.get("dtype"))
        if not crosses(torch.empty(0, device="cpu"), asked):
            return real(cls, *args, **kwargs)
        made = real(**{**given, "device": "cpu", "dtype": asked.dtype})
        _wait(made, asked.device, own)
        return made

    kind.__new__ = __new__


def _wait(tensor: Any, device: torch.device, own: Collection[str]) -> None:
    """The lazy parameter or buffer is to be made on a device of tensors of a Python class."""
    tensor._waits_for, tensor._own = device, own
    tensor.__class__ = _WaitingParameter if isinstance(tensor, nn.Parameter) else _WaitingBuffer


def exchange(kept: torch.Tensor, made: torch.Tensor, own: Collection[str]) -> None:
    """What is behind `made` is behind `kept` from now on, and the other way round. The attributes and hooks of `kept`
    stay with it; its .grad does not.

    As torch.utils.swap_tensors, which takes attributes and hooks away, and refuses tensors that anything else holds: a
    weak reference (an LSTM has them), or a graph that was not differentiated (the weight of torch.nn.utils.weight_norm
    always has one). Those hold, rightly, what was there when they were made; but a gradient that such a graph still
    computes would go to a tensor that nobody sees, so that raises.
    """
    if kept.is_leaf and kept.grad_dtype is not kept.dtype:
        made.grad_dtype = kept.grad_dtype  # the program's choice; else it follows the dtype
    hooks, accumulated = kept._backward_hooks, kept._post_accumulate_grad_hooks
    if torch.is_autocast_cache_enabled():
        torch.clear_autocast_cache()  # holds the tensors that it has cast, weakly, by what is behind them
    try:
        torch._C._swap_tensor_impl(kept, made)
    except RuntimeError as error:
        raise RuntimeError(
            "a parameter can't move between devices while something in C++ holds a weak reference to it (torch.func, "
            "an extension): move the module before"
        ) from error
    kept.__class__, made.__class__ = made.__class__, kept.__class__
    for name in (*own, "_is_param"):  # nn.Parameter's mark on a tensor of a class of its own
        here, there = kept.__dict__.pop(name, None), made.__dict__.pop(name, None)
        kept.__dict__.update({name: there} if there is not None else {})
        made.__dict__.update({name: here} if here is not None else {})
    if hooks is not None:
        kept._backward_hooks = hooks
    if accumulated is not None:
        kept._post_accumulate_grad_hooks = accumulated
    made.grad = None
    if made.requires_grad and made.is_leaf and not made.is_inference():
        with torch.inference_mode(False):  # a node that nobody holds goes at once, and the hook with it
            torch.autograd.graph.get_gradient_edge(made).node.register_prehook(_refuse)


class _Refusal:
    """A hook that makes the engine raise in its own words, in which it names the hook. Not with an exception of
    Python's: on the thread that differentiates on the device one that leaves a hook ends the process (torch 2.13)."""

    __name__ = (
        "backward() through a forward pass from before its module moved onto or off the pjrt device, whose gradients "
        "would be lost: call .to(device) before the forward pass or after backward()"
    )

    def __call__(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()


_refuse = _Refusal()

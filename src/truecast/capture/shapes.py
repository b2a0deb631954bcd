"""What an operation on fake tensors returns, remembered by what it was given.

A model repeats its layers, and FakeTensorMode spends some 80 us on an operation that it has seen before; building
the result from its remembered shape, strides, dtype and device costs a tenth. Operations that return the memory of
an argument, or tensors with known contents, are not remembered.
"""

from __future__ import annotations

from typing import Any

import torch

from truecast.capture import torch_fake, torch_seam

# (shape, strides, dtype, device) of one result; None for an undefined one.
Description = tuple[Any, Any, torch.dtype, torch.device] | None


class Shapes:
    def __init__(self, mode: torch_fake.FakeTensorMode) -> None:
        self.mode = mode
        # Results by key: one description, several (a list or a tuple), or None where they are not to be remembered.
        self._known: dict[Any, tuple[type | None, list[Description]] | None] = {}
        self._usable = mode.shape_env is None  # symbolic sizes carry more than their value

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`func(*args, **kwargs)`, on fake tensors."""
        if not self._usable:
            return func(*args, **kwargs)
        try:
            key = (func, torch.get_default_dtype(), self._key(args), self._key(tuple(kwargs.items())))
        except _NotRemembered:
            return func(*args, **kwargs)
        if key not in self._known:
            result = func(*args, **kwargs)
            self._known[key] = self._describe(result, (args, kwargs))
            return result
        known = self._known[key]
        if known is None:
            return func(*args, **kwargs)
        container, descriptions = known
        made = [None if d is None else self._make(*d) for d in descriptions]
        return made[0] if container is None else container(made)

    def _key(self, argument: Any) -> Any:
        kind = type(argument)
        if kind is torch_fake.FakeTensor:
            if argument.constant is not None or argument.dtype.is_complex or argument.layout is not torch.strided:
                raise _NotRemembered
            return (argument.shape, argument.stride(), argument.dtype, argument.device)
        if kind in (tuple, list, torch.Size):
            return tuple([self._key(a) for a in argument])
        if isinstance(argument, torch.Tensor | torch.Generator | torch.SymInt | torch.SymFloat | torch.SymBool):
            raise _NotRemembered
        return (kind, argument)  # 1, 1.0 and True are equal to Python, and not to PyTorch

    def _describe(self, result: Any, given: Any) -> tuple[type | None, list[Description]] | None:
        leaves = list(result) if isinstance(result, list | tuple) else [result]
        memory = {torch_seam.storage_key(t) for t in torch_seam.tensors_in(given)}
        descriptions: list[Description] = []
        for leaf in leaves:
            if leaf is None:
                descriptions.append(None)
                continue
            plain = type(leaf) is torch_fake.FakeTensor and leaf.constant is None and leaf.layout is torch.strided
            if not plain or leaf.storage_offset() or torch_seam.storage_key(leaf) in memory:
                return None
            memory.add(torch_seam.storage_key(leaf))
            descriptions.append((leaf.shape, leaf.stride(), leaf.dtype, leaf.device))
        return (type(result) if isinstance(result, list | tuple) else None), descriptions

    def _make(self, shape: Any, stride: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        with torch_seam.below_modes():
            memory = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        return torch_fake.FakeTensor(self.mode, memory, device)


class _NotRemembered(Exception):
    pass

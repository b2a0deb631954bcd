"""torch.autocast("pjrt"): casts before the operations that the policy's autocast list names (law N10).

The lists are data of the numerics, which capture doesn't import: registration.py is handed a function that answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from truecast.capture import torch_backend
from truecast.capture.device.tensor import PjrtTensor

# For an ATen name ("conv2d", "conv2d.padding"): lower_precision, float32, float32_dtype, promote, banned, or None.
Lists = Callable[[str], str | None]


def kernel(func: Any, name: str, lists: Lists) -> Callable[..., Any]:
    """What runs in place of `func` inside of autocast."""

    def run(*args: Any, **kwargs: Any) -> Any:
        rule = lists(name)
        with torch_backend.without_autocast():
            if rule == "lower_precision":
                args, kwargs = _cast((args, kwargs), torch.get_autocast_dtype("pjrt"))
            elif rule == "float32":
                args, kwargs = _cast((args, kwargs), torch.float32)
            elif rule == "promote":
                args, kwargs = _cast((args, kwargs), _widest((args, kwargs)))
            elif rule == "float32_dtype" and kwargs.get("dtype") is None and _narrow((args, kwargs)):
                if "dtype" in kwargs or any(a.name == "dtype" and a.kwarg_only for a in func._schema.arguments):
                    kwargs = {**kwargs, "dtype": torch.float32}
                else:
                    args, kwargs = _cast((args, kwargs), torch.float32)
            elif rule == "banned" and _narrow((args, kwargs)):
                raise RuntimeError(
                    f"torch.nn.functional.{func._opname} and its module are unsafe to autocast; use the variant with "
                    "logits"
                )
            return func(*args, **kwargs)

    return run


def _eligible(leaf: Any) -> bool:
    floating = isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.dtype is not torch.float64
    return floating and isinstance(leaf, PjrtTensor)


def _cast(nest: Any, dtype: torch.dtype | None) -> Any:
    if dtype is None:
        return nest
    return pytree.tree_map(lambda leaf: leaf.to(dtype) if _eligible(leaf) and leaf.dtype is not dtype else leaf, nest)


def _widest(nest: Any) -> torch.dtype | None:
    found = [leaf.dtype for leaf in pytree.tree_leaves(nest) if _eligible(leaf)]
    if torch.float32 in found or len(set(found)) > 1:
        return torch.float32
    return found[0] if found else None


def _narrow(nest: Any) -> bool:
    return any(_eligible(leaf) and leaf.dtype is not torch.float32 for leaf in pytree.tree_leaves(nest))

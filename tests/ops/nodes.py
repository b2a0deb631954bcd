"""A call of an ATen overload, as the Node that the ops table is asked about; no result is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from truecast import dtypes
from truecast.graph import Node, Token, Value


def node_of(op: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Node:
    """The Node of `op` called with these tensors and literals, without outputs."""
    count = 0

    def argument(leaf: Any) -> Any:
        nonlocal count
        if isinstance(leaf, torch.Tensor):
            count += 1
            return Value(f"arg{count}", dtypes.of(leaf.dtype), tuple(leaf.shape))
        if isinstance(leaf, torch.dtype):
            return dtypes.of(leaf)
        if isinstance(leaf, list | tuple):
            return tuple(argument(item) for item in leaf)
        if isinstance(leaf, torch.device | torch.memory_format | torch.layout | torch.Generator):
            return Token(str(leaf))
        return leaf

    return Node(op, tuple(map(argument, args)), tuple((k, argument(v)) for k, v in (kwargs or {}).items()), ())

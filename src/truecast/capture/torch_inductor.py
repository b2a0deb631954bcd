"""The part of the seam to PyTorch's private interfaces that is about torch.compile's default backend, "inductor" (torch
>= 2.13, < 2.15). tests/unit/test_torch_inductor.py holds the private name down.

Inductor makes code for a processor; the device compiles and fuses what it is asked for by itself. So a graph that
touches the device runs as it is, its operations recorded among the others there, and all other graphs are inductor's.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch


def leave_to_the_device(device_type: str) -> None:
    """torch.compile with its default backend, in any mode, leaves graphs with tensors of this type of device as they
    are, from now on.

    Rests on torch._TorchCompileInductorWrapper, the backend that torch.compile makes of "inductor", a mode and options.
    """
    wrapper: Any = torch._TorchCompileInductorWrapper
    compiled = wrapper.__call__

    @functools.wraps(compiled)
    def call(self: Any, module: torch.fx.GraphModule, inputs: Iterable[Any], **named: Any) -> Any:
        if touches(module, inputs, device_type):
            return module
        return compiled(self, module, inputs, **named)

    wrapper.__call__ = call


def touches(module: torch.fx.GraphModule, inputs: Iterable[Any], device_type: str) -> bool:
    """Whether a graph of torch.compile takes or makes tensors on a device of this type."""
    results = (node.meta.get("example_value") for node in module.graph.nodes)
    found = torch.utils._pytree.tree_iter([list(inputs), list(results)])
    return any(isinstance(leaf, torch.Tensor) and leaf.device.type == device_type for leaf in found)

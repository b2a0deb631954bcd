"""What a capture returns besides the Graph: the tensors the program owns and the shape of its call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from truecast.graph import Graph


@dataclass(frozen=True)
class Captured:
    """A Graph and how to call it as the program was called.

    bound: by value name, the tensors of inputs of kind parameter, buffer and constant (they may be fake
        tensors; then the Graph can be lowered but not run).
    arguments: one entry per leaf of the flattened (args, kwargs): the value name of its graph input, or
        None for a leaf that is baked into the Graph (a number, a string, None).
    in_spec, out_spec: the pytree specs of (args, kwargs) and of the result.
    results: one entry per leaf of the flattened result: the index of its graph output, or ("constant", leaf).
    gradients: what the program leaves in `.grad`, where it called backward(): by the path of the parameter or
        argument, the index of the graph output that is the new gradient. These outputs are of kind result and
        come after those of `results`. A `.grad` that was there before and is added to is an input of kind buffer,
        path "<parameter>.grad", with a mutation instead.
    """

    graph: Graph
    bound: Mapping[str, torch.Tensor]
    arguments: tuple[str | None, ...]
    in_spec: Any
    out_spec: Any
    results: tuple[Any, ...]
    gradients: Mapping[str, int] = field(default_factory=dict)

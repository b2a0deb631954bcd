"""`truecast.capture(...)`: one call of a program as a Graph, without running it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from truecast.capture import recorder
from truecast.graph import Graph


def capture(program: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
    """What a function or nn.Module does when called so: a Graph of ATen operations.

    Works on fake tensors too, and computes nothing on real ones. Raises CaptureError for what has no Graph.
    """
    return recorder.trace(program, args, kwargs).graph

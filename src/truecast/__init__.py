"""PyTorch on XLA with numerics that are declared, visible and proven.

The public names, each loaded when it is first used: `import truecast` loads neither torch nor jax.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from truecast import numerics as numerics  # callable: `with truecast.numerics("neuron"): ...`

if TYPE_CHECKING:
    from truecast.api import capture, load, lower, plan
    from truecast.numerics.numerics import Numerics
    from truecast.numerics.scope import set_numerics

__version__ = "0.1.0"

_HOMES = {
    "Numerics": "truecast.numerics.numerics",
    "capture": "truecast.api",
    "load": "truecast.api",
    "lower": "truecast.api",
    "plan": "truecast.api",
    "set_numerics": "truecast.numerics.scope",
}

__all__ = ["Numerics", "capture", "load", "lower", "numerics", "plan", "set_numerics"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'truecast' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

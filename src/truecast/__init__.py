"""PyTorch on XLA with numerics that are declared, visible and proven.

The public names, each loaded when it is first used: `import truecast` loads neither torch nor jax.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truecast.api.auditing import audit
    from truecast.api.bisecting import bisect
    from truecast.api.calling_jax import call_jax
    from truecast.api.comparing import compare
    from truecast.api.device import device, metrics, sync, why_recompiled
    from truecast.api.explaining import explain, recording
    from truecast.api.programs import load, lower, plan
    from truecast.capture.call import capture
    from truecast.numerics.numerics import Numerics
    from truecast.numerics.scope import numerics, set_numerics

__version__ = "0.1.0"

# Where each name lives. "capture" and "numerics" are packages that can be called (callable_package.py).
_HOMES = {
    "Numerics": "truecast.numerics.numerics",
    "audit": "truecast.api.auditing",
    "bisect": "truecast.api.bisecting",
    "call_jax": "truecast.api.calling_jax",
    "capture": "truecast.capture",
    "compare": "truecast.api.comparing",
    "device": "truecast.api.device",
    "explain": "truecast.api.explaining",
    "load": "truecast.api.programs",
    "lower": "truecast.api.programs",
    "metrics": "truecast.api.device",
    "numerics": "truecast.numerics",
    "plan": "truecast.api.programs",
    "recording": "truecast.api.explaining",
    "set_numerics": "truecast.numerics.scope",
    "sync": "truecast.api.device",
    "why_recompiled": "truecast.api.device",
}

__all__ = [
    "Numerics",
    "audit",
    "bisect",
    "call_jax",
    "capture",
    "compare",
    "device",
    "explain",
    "load",
    "lower",
    "metrics",
    "numerics",
    "plan",
    "recording",
    "set_numerics",
    "sync",
    "why_recompiled",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'truecast' has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if home == f"truecast.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

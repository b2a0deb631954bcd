"""The kinds of device a policy can be for, and what their arithmetic does with subnormals whatever a program says.

Imports the leaves only.
"""

from __future__ import annotations

from typing import Literal

from truecast.errors import TargetError

TARGETS = ("cpu", "cuda", "tpu", "neuron")

Subnormals = Literal[
    "target",  # as the target's arithmetic does
    "preserve",  # they survive, as in PyTorch eager; a target that can't do it raises
    "flush",  # results smaller than the smallest normal number become zero, with their sign
]

# Why a target can't be asked to preserve subnormals; XLA:GPU is not told to flush (--xla_gpu_ftz is false by default).
_CANNOT_PRESERVE = {
    "cpu": "measured with jaxlib 0.10.2: XLA:CPU runs with float32, bfloat16 and float64 subnormals flushed, "
    "and has no option against it; float16 keeps its own, being computed in float32",
    "tpu": "whether it keeps any is not established",
    "neuron": "whether it keeps any is not established",
}


def require_subnormals(subnormals: str, target: str, policy: str) -> None:
    """Raises TargetError if `target` can't do what the policy named `policy` says about subnormals."""
    if subnormals == "preserve" and target in _CANNOT_PRESERVE:
        raise TargetError(
            f"target {target!r} can't preserve subnormals",
            values=f"policy {policy!r}: subnormals = preserve, target = {target}",
            why=_CANNOT_PRESERVE[target],
            help='say subnormals = "target" for what it does, or "flush" for the same on every target',
        )

"""torch_xla.backends: the precision of matrix products of float32, as rules of the policy in force.

On a TPU the products of float32 are formed in one, three or six bfloat16 passes; on the other targets the policy's own
rules stay, as torch_xla's setting has no effect there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from truecast.compat.missing import attribute_of
from truecast.numerics.numerics import Rule
from truecast.numerics.scope import policy, set_numerics

__getattr__ = attribute_of(__name__)

Precision = Literal["default", "high", "highest"]
_PASSES = {"default": "bf16_bf16_f32", "high": "bf16_bf16_f32_x3", "highest": "bf16_bf16_f32_x6"}
_RULES = {
    precision: Rule(
        kind="contraction|convolution",
        dtype="float32",
        target="tpu",
        compute="same",
        accumulate="float32",
        algorithm=algorithm,
        rounding="compiler",
        note=f"torch_xla.backends.set_mat_mul_precision({precision!r})",
    )
    for precision, algorithm in _PASSES.items()
}
_current: Precision = "default"


def set_mat_mul_precision(precision: Precision) -> None:
    """How products of float32 are formed from now on. Raises ValueError for an unknown name."""
    global _current
    if precision not in _RULES:
        raise ValueError(f"Invalid precision: {precision}. Must be one of {', '.join(_RULES)}.")
    in_force = policy()
    others = tuple(rule for rule in in_force.rules if rule not in _RULES.values())
    set_numerics(replace(in_force, rules=(_RULES[precision], *others)))
    _current = precision


def get_mat_mul_precision() -> Precision:
    """How products of float32 are formed: "default", "high" or "highest"."""
    return _current

"""The ways a contraction can form its products (law N5), as data: operand type, passes, accumulator, and which
targets can do it.

Imports the leaves only. Names are StableHLO's dot algorithms in lower case: "<lhs>_<rhs>_<accumulator>", then
"_x<passes>" where a float32 operand is split into several narrower parts. A name says what is computed; whether a
backend has an instruction for it or the lowering writes the split out is not the policy's affair, but a target that
can do neither raises.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from truecast import dtypes
from truecast.dtypes import DType
from truecast.errors import NumericsError, TargetError


@dataclass(frozen=True, slots=True)
class Algorithm:
    """operand: the name of the type whose products are formed ("tf32" is no dtype: float32 with 10 mantissa bits).
    bits: significant bits of a float32 operand that take part. passes: products per multiplication.
    inputs: the dtypes of operands it applies to. missing: (target, reason) for the targets that can't do it."""

    name: str
    operand: str
    bits: int
    passes: int
    accumulate: DType
    inputs: tuple[DType, ...]
    missing: tuple[tuple[str, str], ...] = ()


_WIDE = (dtypes.float32,)
_NARROW_BF16 = (dtypes.bfloat16, dtypes.float32)
_NO_TF32 = "it has no TF32 multiplier"
_NO_F64 = "it holds float64 as float32"

# The bits are those of the sum of the parts: one bfloat16 carries 8, two 16, three 24. Part i is 2^-8i of the first:
# x3 leaves out the one product at 2^-16, x6 the three at 2^-24 and below. Both sum what they form in float32.
_ROWS = (
    Algorithm("bf16_bf16_f32", "bfloat16", 8, 1, dtypes.float32, _NARROW_BF16),
    Algorithm("bf16_bf16_f32_x3", "bfloat16", 16, 3, dtypes.float32, _WIDE),
    Algorithm("bf16_bf16_f32_x6", "bfloat16", 24, 6, dtypes.float32, _WIDE),
    Algorithm(
        "tf32_tf32_f32",
        "tf32",
        11,
        1,
        dtypes.float32,
        _WIDE,
        missing=(("tpu", _NO_TF32),),
    ),
    Algorithm("f16_f16_f32", "float16", 11, 1, dtypes.float32, (dtypes.float16,)),
    Algorithm("f32_f32_f32", "float32", 24, 1, dtypes.float32, (dtypes.bfloat16, dtypes.float16, dtypes.float32)),
    Algorithm("f64_f64_f64", "float64", 53, 1, dtypes.float64, (dtypes.float64,), missing=(("neuron", _NO_F64),)),
)
ALGORITHMS: dict[str, Algorithm] = {row.name: row for row in _ROWS}


def algorithm(name: str) -> Algorithm:
    """The algorithm of that name. Raises NumericsError with the nearest name."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    near = difflib.get_close_matches(name, ALGORITHMS, n=1)
    raise NumericsError(
        f"unknown contraction algorithm {name!r}",
        values=f"algorithms: {', '.join(ALGORITHMS)}",
        why="a contraction names its operands and its accumulator (law N5)",
        help=f"did you mean {near[0]!r}?" if near else None,
    )


_SHORT = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64"}


def spelled(name: str, operand: DType | None, accumulate: DType | None) -> str:
    """The name of what a contraction does: `name`, or where it is "" that of one pass in `operand`; "" for neither."""
    if name or operand is None or accumulate is None:
        return name
    short, total = (_SHORT.get(d.name, d.name) for d in (operand, accumulate))
    return f"{short}_{short}_{total}"


def require(name: str, target: str, where: object | None = None) -> Algorithm:
    """The algorithm, if `target` can do it. Raises TargetError naming the target, the reason and the ones it has."""
    found = algorithm(name)
    reason = dict(found.missing).get(target)
    if reason is None:
        return found
    able = [row.name for row in _ROWS if target not in dict(row.missing) and set(row.inputs) & set(found.inputs)]
    raise TargetError(
        f"target {target!r} can't do algorithm {name!r}",
        where=where,
        values=f"{target} can do: {', '.join(able)}",
        why=f"{reason}; a contraction never falls back silently (law N5)",
        help=f"say algorithm = {able[-1]!r} in the rule" if able else None,
    )

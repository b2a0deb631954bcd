"""Law N1: dtypes are PyTorch's, for every pair of dtypes x {n-d tensor, 0-dim tensor, Python scalar} x elementwise
binary operation; and where the arithmetic is exact, so are the values.

The operands are small whole numbers, for which sums, products, comparisons and extremes are exact in every
dtype: the device must then hold exactly what eager holds. Dozens of calls share a compile.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ops.batch import Case, accepted, differences

NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
NAMES += ("complex64", "complex128")
DTYPES = [getattr(torch, name) for name in NAMES]
FORMS = ("dimensioned", "zero_dim", "scalar")
EXACT = "add sub rsub mul maximum minimum fmax fmin eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor logical_and"
EXACT += " logical_or logical_xor heaviside copysign gcd lcm floor_divide remainder fmod"
ROUNDED = "div pow atan2 hypot xlogy logaddexp logaddexp2 special_xlog1py"
OPERATIONS = (EXACT + " " + ROUNDED).split()
Operand = torch.Tensor | bool | int | float | complex


def operand(dtype: torch.dtype, form: str, left: bool) -> Operand:
    """Positive small whole numbers: exact in float16 and int8 alike, and legal divisors and exponents."""
    if form == "scalar":
        kind = (
            complex if dtype.is_complex else float if dtype.is_floating_point else bool if dtype is torch.bool else int
        )
        return kind(2)
    numbers = torch.tensor([1, 2, 3] if left else [3, 1, 2])
    return (numbers if form == "dimensioned" else numbers[1]).to(dtype)


def call(name: str, a: Operand, b: Operand) -> Case | None:
    """The overload that torch itself would choose for these operands; None if there is none."""
    overloads = getattr(torch.ops.aten, name).overloads()
    tensors = (isinstance(a, torch.Tensor), isinstance(b, torch.Tensor))
    choices = {
        (True, True): ("Tensor", "Tensor_Tensor", "default", "other"),
        (True, False): ("Scalar", "Tensor_Scalar", "other_scalar", "Scalar_Other"),
        (False, True): ("Scalar", "Scalar_Tensor", "self_scalar", "Scalar_Self"),
    }.get(tensors, ())
    found = next((o for o in choices if o in overloads), None)
    if found is None or (found == "Scalar" and not tensors[0] and name != "pow"):
        return None
    return Case(f"aten.{name}.{found}", (a, b), ulps=0 if name in EXACT.split() else 8, floor=1e-3)


def cases(left: torch.dtype, right: torch.dtype, names: list[str]) -> Iterator[Case]:
    for name, a, b in itertools.product(names, FORMS, FORMS):
        if a == b == "scalar":
            continue
        operands = operand(left, a, True), operand(right, b, False)
        if torch.result_type(*operands) is torch.complex32:  # float16 with a complex number; XLA has no such dtype
            continue
        case = call(name, *operands)
        if case is not None and accepted(case):
            yield case


@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(pair=st.tuples(st.sampled_from(DTYPES), st.sampled_from(DTYPES)), rotation=st.integers(0, 5))
def test_n1_a_sample_of_pairs(pair: tuple[torch.dtype, torch.dtype], rotation: int) -> None:
    found = differences(cases(*pair, OPERATIONS[rotation::3]))
    assert not found, "\n".join(found)


def test_n1_zero_dim_operands_do_not_widen() -> None:
    """The 13 operations whose device dtype torch_xla 2.9 gets wrong with a 0-dim float32 or float64 operand."""
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16)
    pairs = [(x, torch.tensor(2.0, dtype=wide)) for wide in (torch.float32, torch.float64)]
    names = (
        "add.Tensor sub.Tensor maximum.default minimum.default fmod.Tensor remainder.Tensor atan2.default xlogy.Tensor"
    )
    calls = [Case(f"aten.{name}", pair) for name in names.split() for pair in pairs]
    calls += [Case("aten.pow.Tensor_Tensor", pair) for pair in pairs]
    calls += [Case(f"aten.{name}.default", (x, *pair)) for name in ("addcmul", "addcdiv") for pair in pairs]
    calls += [Case("aten.clamp.Tensor", (x, pair[1], pair[1])) for pair in pairs]
    assert differences(calls) == []


@pytest.mark.slow
@pytest.mark.parametrize("left", DTYPES, ids=str)
def test_n1_every_pair(left: torch.dtype) -> None:
    found = []
    for right in DTYPES:
        found += differences(cases(left, right, OPERATIONS))
    assert not found, "\n".join(found)

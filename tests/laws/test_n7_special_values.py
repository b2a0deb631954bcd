"""Law N7: NaN, infinities, signed zeros, subnormals, integer overflow and division follow PyTorch eager on the CPU.

Casts are in tests/ops/test_lower_cast.py. What XLA:CPU does otherwise is written down here as a test, so that a
release that changes it is seen.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.ops.batch import Case, check, merged
from tests.twin import run, single_node_graph, to_numpy


def computed(op: str, *args: object, **kwargs: object) -> tuple[np.ndarray, np.ndarray]:
    graph, tensors, expected = single_node_graph(op, *args, **kwargs)
    return run(graph, tensors)[0], to_numpy(expected[0])


ZEROS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, math.inf, -math.inf]


SIGNED = "neg abs sqrt sin tan asin atan sinh tanh asinh expm1 log1p erf ceil floor trunc round sign reciprocal"


def _same_signs(cases: list[Case]) -> None:
    graph, tensors, expected = merged(cases)
    for got, (case, want_tensor) in zip(run(graph, tensors), expected, strict=True):
        want = to_numpy(want_tensor)
        number = ~np.isnan(want.astype(np.float64))
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]), err_msg=str(case))


def test_n7_zeros_keep_their_sign() -> None:
    _same_signs([Case(f"aten.{name}.default", (torch.tensor(ZEROS),)) for name in SIGNED.split()])


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_n7_products_and_quotients_sign_their_zeros(dtype: torch.dtype) -> None:
    x = torch.tensor(ZEROS, dtype=dtype)
    a, b = (v.reshape(-1).contiguous() for v in torch.meshgrid(x, x, indexing="ij"))
    _same_signs([Case(f"aten.{name}.Tensor", (a, b)) for name in ("mul", "div", "copysign", "fmod")])


def test_n7_a_nan_wins_extremes_and_loses_fmax() -> None:
    a = torch.tensor([math.nan, 1.0, math.nan, math.inf])
    b = torch.tensor([1.0, math.nan, math.nan, math.nan])
    names = ["maximum", "minimum", "fmax", "fmin"]
    cases = [Case(f"aten.{n}.default", (a, b), ulps=0) for n in names]
    cases += [Case(f"aten.{n}.default", (torch.stack([a, b]), [1]), ulps=0) for n in ("amax", "amin")]
    cases += [Case(f"aten.{n}.default", (torch.stack([a, b]), 1), ulps=0) for n in ("argmax", "argmin")]
    cases += [Case("aten.clamp.Tensor", (torch.ones(4), a, b), ulps=0), Case("aten.relu.default", (a,), ulps=0)]
    check(cases, at_least=10)


@pytest.mark.parametrize("dtype", (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64), ids=str)
def test_n7_integers_wrap(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    a = torch.tensor([info.max, info.min, info.max, info.min, 7], dtype=dtype)
    b = torch.tensor([1, 1, info.max, info.min, 9], dtype=dtype)
    cases = [Case(f"aten.{n}.Tensor", (a, b)) for n in ("add", "sub", "mul")]
    cases += [Case("aten.pow.Tensor_Tensor", (a, torch.tensor([2, 3, 5, 9, 30], dtype=dtype)))]
    cases += [Case("aten.neg.default", (a,)), Case("aten.abs.default", (a,)), Case("aten.cumsum.default", (a, 0))]
    check(cases, at_least=7)


@pytest.mark.parametrize("dtype", (torch.int8, torch.int32, torch.int64), ids=str)
def test_n7_integer_division_never_kills_the_process(dtype: torch.dtype) -> None:
    """Eager raises for x / 0 and traps (SIGFPE) for min / -1; a compiled program can do neither. It goes on, with
    all other elements right, and min % -1 is 0."""
    lowest = torch.iinfo(dtype).min
    names = ("floor_divide.default", "remainder.Tensor", "fmod.Tensor", "gcd.default", "lcm.default")
    safe = torch.tensor([7, -7, 9, 5, 1], dtype=dtype), torch.tensor([2, 2, 3, 1, 1], dtype=dtype)
    graph, _, expected = merged([Case(f"aten.{name}", safe) for name in names])
    left = torch.tensor([7, -7, lowest, 5, lowest], dtype=dtype)
    right = torch.tensor([2, 2, -1, 0, 0], dtype=dtype)
    for got, (case, want) in zip(run(graph, [left, right] * len(names)), expected, strict=True):
        np.testing.assert_array_equal(got[:2], to_numpy(want)[:2], err_msg=case.op)
        if case.op in ("aten.remainder.Tensor", "aten.fmod.Tensor"):
            assert got[2] == 0


SUBNORMAL = {torch.float16: 2.0**-20, torch.bfloat16: 2.0**-130, torch.float32: 2.0**-130, torch.float64: 2.0**-1030}


def test_n7_subnormals_survive_where_no_arithmetic_is_done() -> None:
    xs = [torch.tensor([v, -v], dtype=torch.float64).to(dtype) for dtype, v in SUBNORMAL.items()]
    graph, tensors, expected = merged(
        [Case(f"aten.{name}.default", (x,)) for x in xs for name in ("neg", "abs", "clone")]
    )
    for got, (case, want) in zip(run(graph, tensors), expected, strict=True):
        assert got.tobytes() == to_numpy(want).tobytes(), str(case)


def test_n7_float16_subnormals_survive_arithmetic() -> None:
    x = torch.tensor([2.0**-20, -(2.0**-20), 2.0**-24], dtype=torch.float16)
    y = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float16)
    check([Case(f"aten.{n}.Tensor", (x, y), ulps=0) for n in ("add", "sub", "mul", "div", "eq", "lt")], at_least=6)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32, torch.float64), ids=str)
def test_n7_xla_cpu_flushes_other_subnormals_in_arithmetic(dtype: torch.dtype) -> None:
    """The exception to the law: XLA's CPU client runs programs with flush-to-zero and denormals-are-zero set, and
    offers no switch. A float32 or float64 subnormal (and a bfloat16 one, which is computed in float32) counts as 0
    in products, quotients, roots and comparisons. It keeps its sign."""
    x = torch.tensor([SUBNORMAL[dtype], -SUBNORMAL[dtype]], dtype=torch.float64).to(dtype)
    one = torch.ones(2, dtype=dtype)
    product, eager = computed("aten.mul.Tensor", x, one)
    assert (eager != 0).all()
    assert (product == 0).all() and list(np.signbit(product)) == [False, True]

"""Casts and creation beside PyTorch eager: law N7's float-to-integer conversion, ranges, triangles, windows."""

from __future__ import annotations

import math

import pytest
import torch

import truecast as tc
from tests.ops.batch import Case, check, fast_and_slow
from truecast.errors import UnsupportedError

NAMES = ["float32", "float64", "bfloat16", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"]
DTYPES = [getattr(torch, name) for name in NAMES]
_REALS = [0.0, -0.0, 0.5, -0.5, 1.9, -1.9, 100.7, 127.0, 128.0, -128.0, -129.0, 200.0, 255.9, 256.0, 300.5, -300.5]
_REALS += [32768.0, 65504.0, 70000.0, 2147483520.0, 2147483648.0, -2147483648.0, 3e9, -3e9, 4.3e9, 1e10, -1e10]
_REALS += [9.2e18, 9.3e18, -9.3e18, 1e20, -1e20, math.inf, -math.inf, math.nan]


def source(dtype: torch.dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.tensor([True, False])
    if dtype.is_complex:
        return torch.tensor([0, 1 + 2j, -0.5j, 3.7 - 1j, complex(math.nan, 1)], dtype=dtype)
    if dtype.is_floating_point:
        return torch.tensor(_REALS, dtype=torch.float64).to(dtype)
    info = torch.iinfo(dtype)
    return torch.tensor([0, 1, info.max, info.min, info.max // 2 + 1, 100], dtype=dtype)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_n7_every_cast_is_eagers(dtype: torch.dtype) -> None:
    check([Case("aten._to_copy.default", (source(dtype),), {"dtype": t}, ulps=0) for t in DTYPES], at_least=len(DTYPES))


def test_float8_casts() -> None:
    # 448 is the largest e4m3fn; eager saturates nothing: above it comes NaN.
    x = torch.tensor([0.0, -0.0, 1.0, 0.3, 440.0, 448.0, 1e-3, -2.7, math.nan])
    narrow = (torch.float8_e4m3fn, torch.float8_e5m2)
    wide = (torch.float32, torch.bfloat16)
    cases = [Case("aten._to_copy.default", (x.to(w),), {"dtype": t}, ulps=0) for t in narrow for w in wide]
    cases += [Case("aten._to_copy.default", (x.to(t),), {"dtype": torch.float32}, ulps=0) for t in narrow]
    check(cases, at_least=6)


def _creation(dtype: torch.dtype) -> list[Case]:
    like = torch.zeros(2, 3, dtype=torch.float32)
    given = {"dtype": dtype}
    cases = [
        Case("aten.full.default", ([2, 3], 7), given, ulps=0),
        Case("aten.full.default", ([], True), given, ulps=0),
        Case("aten.full_like.default", (like, -3), given, ulps=0),
        Case("aten.new_full.default", (like, [4], 2), given, ulps=0),
        Case("aten.zeros.default", ([3],), given, ulps=0),
        Case("aten.ones.default", ([3, 0],), given, ulps=0),
        Case("aten.zeros_like.default", (like,), given, ulps=0),
        Case("aten.ones_like.default", (like,), given, ulps=0),
        Case("aten.new_zeros.default", (like, [2]), given, ulps=0),
        Case("aten.new_ones.default", (like, [2]), given, ulps=0),
        Case("aten.scalar_tensor.default", (5,), given, ulps=0),
        Case("aten.eye.m", (3, 5), given, ulps=0),
        Case("aten.eye.default", (4,), given, ulps=0),
        Case("aten.arange.default", (11,), given, ulps=1),
        Case("aten.arange.start", (3, 11), given, ulps=1),
        Case("aten.arange.start_step", (11, 3, -2), given, ulps=1),
        Case("aten.arange.start_step", (0.5, 3, 0.3), given, ulps=1),
        Case("aten.linspace.default", (-3, 8, 7), given, ulps=2, floor=8),
        Case("aten.linspace.default", (2.5, 2.5, 1), given, ulps=2),
        Case("aten.linspace.default", (0, 1, 0), given, ulps=2),
        Case("aten.logspace.default", (0, 2, 5), given, ulps=8),
        Case("aten.logspace.default", (0, 3, 4, 2.0), given, ulps=8),
        # An integer result truncates the bounds first, numbers and tensors alike.
        Case("aten.logspace.default", (2.9, 1.2, 4, 2.0), given, ulps=8),
        Case("aten.logspace.Tensor_Tensor", (torch.tensor(4.3), torch.tensor(1.2), 4, 5.0), given, ulps=8),
        Case("aten.linspace.Tensor_Scalar", (torch.tensor(4.3), -3, 9), given, ulps=2, floor=8),
        Case("aten.fft_fftfreq.default", (5,), given, ulps=2),
        Case("aten.fft_fftfreq.default", (6, 0.3), given, ulps=2),
        Case("aten.fft_rfftfreq.default", (7, 2.0), given, ulps=2),
    ]
    return cases


@pytest.mark.parametrize(
    "dtype",
    fast_and_slow(
        (torch.float32, torch.bfloat16, torch.int32), (torch.float64, torch.float16, torch.int64, torch.bool)
    ),
    ids=str,
)
def test_creation(dtype: torch.dtype) -> None:
    check(_creation(dtype), at_least=12)


def test_creation_without_a_dtype() -> None:
    x = torch.ones(2, 3, dtype=torch.int16)
    cases = [
        Case("aten.arange.default", (5,)),
        Case("aten.arange.default", (2.5,)),
        Case("aten.full.default", ([2], 1.5), ulps=0),
        Case("aten.full.default", ([2], 1 + 2j), ulps=0),
        Case("aten.full_like.default", (x, 3)),
        Case("aten.fill.Scalar", (x, 3.7)),
        Case("aten.fill.Tensor", (x, torch.tensor(3.7))),
        Case("aten.copy.default", (x, torch.tensor([1.5, -2.5, 3.0]))),
        Case("aten.copy.default", (x.bfloat16(), torch.rand(2, 3)), ulps=0),
    ]
    check(cases, at_least=9)


def test_complex_ranges() -> None:
    given = {"dtype": torch.complex64}
    cases = [
        Case("aten.logspace.default", (1 + 1j, 2 - 0.5j, 5, 2.0), given, ulps=8),
        Case("aten.linspace.default", (1 + 1j, 2 - 0.5j, 5), given, ulps=8),
    ]
    check(cases, at_least=2)


def test_complex32_is_refused_where_it_arises() -> None:
    program = tc.lower(lambda x: torch.complex(x, x), torch.ones(3, dtype=torch.float16))
    with pytest.raises(UnsupportedError) as caught:
        program.compile()
    parts = str(caught.value).splitlines()
    assert parts[0] == "aten.complex.default gives complex32, which XLA does not have"
    assert "test_lower_cast.py" in parts[1]
    assert parts[2:] == [
        "  values: complex32[3]",
        "  why: XLA's complex numbers have parts of float32 or float64; no other dtype stands for it (law N1)",
        "  help: compute in complex64: x.to(torch.complex64), or x.float() before it becomes complex",
    ]
    with pytest.raises(UnsupportedError, match=r"^the program takes complex32, which XLA does not have\n"):
        tc.lower(lambda z: z, torch.ones(3, dtype=torch.complex32)).compile()


def test_triangles() -> None:
    sizes = [(3, 4, 0), (4, 3, 1), (3, 3, -1), (2, 5, -3), (5, 2, 3), (0, 3, 0)]
    names = ("tril_indices", "triu_indices")
    check([Case(f"aten.{name}.default", size) for name in names for size in sizes], at_least=12)


def test_windows() -> None:
    names = ["hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"]
    cases = [Case(f"aten.{name}.default", (length,), ulps=8, floor=1) for name in names for length in (1, 2, 7, 8)]
    cases += [Case(f"aten.{name}.periodic", (7, False), ulps=8, floor=1) for name in names]
    check(cases, at_least=25)

"""Elementwise rules beside PyTorch eager: every overload x dtype, on adversarial values, some dozens a compile."""

from __future__ import annotations

import math

import pytest
import torch

import truecast as tc
from tests.ops.batch import Case, check, fast_and_slow
from truecast.errors import UnsupportedError
from truecast.lowering.registry import find

ALL = fast_and_slow(
    (torch.float32, torch.bfloat16, torch.int32, torch.bool),
    (torch.float64, torch.float16, torch.int64, torch.uint8, torch.int8, torch.complex64),
)
SOME_FLOATS = fast_and_slow((torch.float32, torch.bfloat16), (torch.float64, torch.float16))
# 3e38 and 2e-38 are near the ends of float32's normal range; beyond it see tests/laws/test_n7_special_values.py.
_REALS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, math.inf, -math.inf, math.nan, 1e-3, 10.0, -7.25]
_REALS += [100.0, 1e5, 3e38, -3e38, 2e-38, 0.1, 0.9, 1.5, 2.5, -1.5, -2.5, 6.0, -6.0, 20.5, 88.0, -80.0, 1e-7]


def values(dtype: torch.dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.tensor([True, False, True])
    if dtype.is_complex:  # components away from branch cuts and infinities, where C leaves the choice open
        parts = [0.5, 1.0, -2.0, 3.0, 1e-3, -7.25, -0.3]
        return torch.tensor([complex(a, b) for a in parts for b in parts[::-1]], dtype=dtype)
    if dtype.is_floating_point:
        noise = torch.randn(48, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3
        return torch.cat([torch.tensor(_REALS, dtype=torch.float64), noise]).to(dtype)
    info = torch.iinfo(dtype)
    signed = [-1, -2, -3, -7] if info.min < 0 else [200]
    return torch.tensor([0, 1, 2, 3, 5, 7, 10, 31, info.max, info.min, info.max - 1, *signed], dtype=dtype)


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    v = values(dtype)[:22]
    a, b = (x.reshape(-1).contiguous() for x in torch.meshgrid(v, v.flip(0), indexing="ij"))
    return a, b


# name: units in the last place. 4 is two roundings on each side; a larger number says which side is worse.
def _with(ulps: float, names: str) -> dict[str, float]:
    return dict.fromkeys(names.split(), ulps)


UNARY = {
    **_with(0, "neg abs sign sgn signbit ceil floor trunc round bitwise_not logical_not isnan isinf isposinf isneginf"),
    **_with(4, "frac reciprocal sqrt rsqrt deg2rad rad2deg exp exp2 expm1 log log1p log2 log10 sin cos tan asin acos"),
    **_with(4, "atan sinh cosh tanh asinh acosh atanh sinc erf i0 special_i0e special_i1 special_i1e sigmoid angle"),
    **_with(4, "special_modified_bessel_i0 special_modified_bessel_i1 special_ndtri special_entr relu"),
    **_with(8, "erfc special_erfcx erfinv special_spherical_bessel_j0"),
    **_with(64, "special_log_ndtr"),
}
# float32 digamma: eager's own recurrence is 8 units off at 0.5 (-0.57721591 for -0.57721566).
UNARY |= {"lgamma": 8.0, "digamma": 16.0}
# Where a result passes through 0 away from an exact zero of the formula, units are those of 1.
FLOOR = {"lgamma": 1.0, "digamma": 1.0, "erf": 1e-4, "special_log_ndtr": 1e-30, "sinc": 1.0}
# cosh(88): eager's vectorised kernel overflows half a unit of exponent early on some CPUs.
WITHOUT = {"cosh": (88.0,), "sinh": (88.0,), "tan": (3e38, -3e38, 1e5), "sinc": (3e38, -3e38, 1e5)}


def _unary_case(name: str, dtype: torch.dtype) -> Case:
    x = values(dtype)
    for unwanted in WITHOUT.get(name, ()):
        x = x[x != torch.tensor(unwanted).to(dtype)] if dtype.is_floating_point else x
    # The magnitude of a complex number is two roundings of a hypotenuse on either side.
    ulps = max(UNARY[name], 4.0) if dtype.is_complex else UNARY[name]
    return Case(f"aten.{name}.default", (x,), ulps=ulps, floor=FLOOR.get(name, 0.0))


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_unary(dtype: torch.dtype) -> None:
    check([_unary_case(name, dtype) for name in UNARY], at_least=10)


BINARY = "maximum minimum fmax fmin copysign nextafter heaviside eq ne lt le gt ge logical_and logical_or logical_xor"
BINARY += " bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm"
INEXACT_BINARY = (
    "add sub rsub mul div floor_divide remainder fmod atan2 hypot xlogy special_xlog1py logaddexp logaddexp2"
)


def _overload(name: str) -> str:
    return "Tensor" if "Tensor" in getattr(torch.ops.aten, name).overloads() else "default"


def _binary_cases(dtype: torch.dtype) -> list[Case]:
    a, b = pairs(dtype)
    integral = not dtype.is_floating_point and not dtype.is_complex
    cases = []
    for name in (BINARY + " " + INEXACT_BINARY).split():
        x, y = a, b
        if integral and dtype is not torch.bool:
            lowest = torch.iinfo(dtype).min
            if name in ("floor_divide", "remainder", "fmod", "gcd", "lcm"):  # eager raises at 0, traps at min / -1
                keep = (y != 0) & ((x != lowest) | (lowest == 0)) & ((y != lowest) | (lowest == 0))
                x, y = x[keep], y[keep]
        if dtype in (torch.float32, torch.bfloat16) and name in ("remainder", "fmod"):
            # Eager's vectorised fmod gives NaN where x / y overflows (C's fmod does not), and a remainder of 2e-38
            # can be subnormal, which XLA:CPU flushes.
            keep = ~((x.abs() > 1e30) & (y.abs() < 1)) & ((y == 0) | (y.abs() > 1e-30))
            x, y = x[keep], y[keep]
        ulps = 0.0 if name in BINARY.split() else 4.0
        # log2(2^-1 + 2^-1) is log2(1): near a sum of 1 the result keeps the absolute error of the terms.
        floor = 1.0 if name in ("logaddexp", "logaddexp2") else 0.0
        cases.append(Case(f"aten.{name}.{_overload(name)}", (x, y), ulps=ulps, floor=floor))
    for name in ("add", "sub"):
        cases.append(Case(f"aten.{name}.Tensor", (a, b), {"alpha": 3}, ulps=4))
    for mode in ("trunc", "floor"):
        keep = torch.ones_like(b, dtype=torch.bool)
        if integral and dtype is not torch.bool:
            keep = (b != 0) & ((a != torch.iinfo(dtype).min) | (b != -1) if dtype != torch.uint8 else keep)
        cases.append(Case("aten.div.Tensor_mode", (a[keep], b[keep]), {"rounding_mode": mode}, ulps=4))
    return cases


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_binary(dtype: torch.dtype) -> None:
    check(_binary_cases(dtype), at_least=8)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_pow(dtype: torch.dtype) -> None:
    a, b = pairs(dtype)
    # complex 0 ** 0: eager's answer depends on vectorisation (1 or NaN); values() has no complex zero.
    # XLA's float32 pow is exp(y log(x)) without extra digits: |y log(x)| units, up to 88.
    cases = [Case("aten.pow.Tensor_Tensor", (a, b), ulps=64)]
    for scalar in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.75):
        cases.append(Case("aten.pow.Tensor_Scalar", (values(dtype), scalar), ulps=64))
        if not (dtype.is_complex and scalar == 0):
            cases.append(Case("aten.pow.Scalar", (scalar, values(dtype)), ulps=64))
    check(cases, at_least=3)


@pytest.mark.parametrize("dtype", SOME_FLOATS, ids=str)
def test_special_of_two(dtype: torch.dtype) -> None:
    points = torch.tensor([0.0, 0.3, 1.0, 1.5, 2.0, 3.0, 7.5, 20.0, math.inf], dtype=dtype)
    a, b = (x.reshape(-1).contiguous() for x in torch.meshgrid(points, points, indexing="ij"))
    cases = [
        # Both sides sum a series; relative agreement is 1e-5 of float32 in the worst corner.
        Case("aten.igamma.default", (a, b), ulps=64, floor=1e-3),
        Case("aten.igammac.default", (a, b), ulps=64, floor=1e-3),
        Case("aten.special_zeta.default", (a[:72], b[:72]), ulps=16),
        Case("aten.polygamma.default", (0, points), ulps=16, floor=1),
        Case("aten.polygamma.default", (3, points[1:8]), ulps=16),
        Case("aten.mvlgamma.default", (points[4:8], 2), ulps=16, floor=1),
        Case("aten.logit.default", (torch.linspace(0, 1, 9, dtype=dtype),), ulps=4),
        Case("aten.logit.default", (torch.linspace(-1, 2, 9, dtype=dtype), 0.1), ulps=8),
    ]
    if dtype is not torch.float64:  # eager's float64 trigamma is off by 1e-10: 1.6449340676 for pi**2 / 6
        cases.append(Case("aten.polygamma.default", (1, points[1:8]), ulps=16))
    if dtype in (torch.float32, torch.float64):
        cases.append(Case("aten.polar.default", (points[:8], points[:8]), ulps=4))
        cases.append(Case("aten.complex.default", (points, -points), ulps=0))
    check(cases, at_least=4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_quotient_by_a_constant_rounds_once(dtype: torch.dtype) -> None:
    """XLA multiplies by the reciprocal of a constant, which rounds twice: 41 / 41 < 1, and truncates to 0."""
    x = torch.arange(1, 500, dtype=dtype)
    cases = [
        Case("aten.div.Tensor", (x, 7), ulps=0.5),
        Case("aten.div.Scalar", (x, 7), ulps=0.5),
        Case("aten.div.Tensor_mode", (x * 41, 41), {"rounding_mode": "trunc"}, ulps=0),
        Case("aten.round.decimals", (x / 8,), {"decimals": 2}, ulps=0.5),
        Case("aten.round.decimals", (x * 3,), {"decimals": -1}, ulps=0.5),
        *(Case("aten.mean.default", (torch.ones(n, dtype=dtype),), ulps=0) for n in (41, 47, 55)),
        Case("aten.avg_pool2d.default", (torch.ones(1, 1, 41, 1, dtype=dtype), [41, 1]), ulps=0),
        Case("aten._adaptive_avg_pool2d.default", (torch.ones(1, 1, 41, 1, dtype=dtype), [1, 1]), ulps=0),
        Case("aten.linspace.Tensor_Scalar", (torch.tensor(50), 1, 50), {"dtype": torch.int64}, ulps=0),
    ]
    check(cases, at_least=11)


def test_zeta_left_of_zero() -> None:
    """Between and at the poles; polygamma of degree n is zeta with n + 1 there."""
    q = torch.tensor([-1000.6, -10.3, -7.5, -3.25, -2.0, -1.0, -0.7, -0.5, -1e-3, 0.0, -math.inf, math.inf, math.nan])
    # The sums left and right of 0 cancel between two poles, in eager as here.
    cases = [Case("aten.polygamma.default", (n, q), ulps=64) for n in range(1, 6)]
    cases += [Case("aten.special_zeta.default", (torch.full_like(q, s), q), ulps=64) for s in (2, 2.5, 3, 1, 0.5)]
    check(cases, at_least=10)


def test_polynomials() -> None:
    """The degree loses its fraction before it is used: -0.5 is 0."""
    x = torch.tensor([-1.0, -0.7, 0.0, 0.3, 1.0, 1.5, 0.9], dtype=torch.float64).repeat_interleave(10)
    n = torch.tensor([-1.0, -0.5, 0, 1, 1.75, 2, 3, 5, 6, 9], dtype=torch.float64).repeat(7)
    names = [o for o in dir(torch.ops.aten) if o.startswith("special_") and "_polynomial_" in o]
    check([Case(f"aten.{name}.default", (x, n), ulps=4096, floor=1) for name in names], at_least=12)


def _scaled(dtype: torch.dtype) -> torch.Tensor:
    x = values(dtype)
    # Eager's float32 gelu (oneDNN) turns inf into NaN and 3e38 into inf; its erf is off by 5e-7.
    return x[x.abs() < 1e30] if dtype.is_floating_point else x


ACTIVATIONS: list[tuple[str, tuple[object, ...], dict[str, object], float]] = [
    ("gelu", (), {}, 16),
    ("gelu", (), {"approximate": "tanh"}, 16),
    ("silu", (), {}, 4),
    ("mish", (), {}, 8),
    ("elu", (), {}, 4),
    ("elu", (1.5, 1.1, 0.7), {}, 4),
    ("celu", (1.3,), {}, 8),
    ("hardtanh", (), {}, 0),
    ("hardtanh", (-2.5, 0.5), {}, 1),
    ("hardsigmoid", (), {}, 2),
    ("hardswish", (), {}, 4),
    ("softplus", (), {}, 4),
    ("softplus", (2, 5), {}, 4),
    ("leaky_relu", (0.2,), {}, 2),
    ("hardshrink", (0.6,), {}, 0),
    ("softshrink", (0.6,), {}, 1),
    ("threshold", (0.7, -3.0), {}, 1),
    ("log_sigmoid_forward", (), {}, 4),
    ("nan_to_num", (), {}, 0),
    ("nan_to_num", (1.0, 2.0, -2.0), {}, 0),
    ("clamp", (-1.0, 2.5), {}, 1),
    ("clamp", (2.5, -1.0), {}, 1),
    ("clamp", (math.nan, 1.0), {}, 1),
    ("clamp_min", (0.5,), {}, 1),
    ("clamp_max", (0.5,), {}, 1),
    ("native_dropout_backward", (torch.arange(80) % 3 > 0, 1.25), {}, 1),
]


@pytest.mark.parametrize("dtype", [*SOME_FLOATS, torch.int64], ids=str)
def test_activations(dtype: torch.dtype) -> None:
    cases = []
    for name, args, kwargs, ulps in ACTIVATIONS:
        x = _scaled(dtype) if name in ("gelu", "mish") else values(dtype)
        if name == "native_dropout_backward":
            args = (torch.arange(x.numel()) % 3 > 0, 1.25)
        cases.append(Case(f"aten.{name}.default", (x, *args), kwargs, ulps=ulps, floor=1.0 if ulps > 4 else 0.0))
    if dtype.is_floating_point:
        cases.append(Case("aten.round.decimals", (_scaled(dtype),), {"decimals": 2}, ulps=2))
        cases.append(Case("aten.round.decimals", (_scaled(dtype),), {"decimals": -1}, ulps=2))
        cases.append(Case("aten.frexp.Tensor", (values(dtype)[torch.isfinite(values(dtype))],), ulps=0))
    check(cases, at_least=8)


BACKWARDS: list[tuple[str, str, tuple[object, ...], dict[str, object], float]] = [
    ("gelu_backward", "gx", (), {}, 16),
    # x * x * (1 - tanh**2) multiplies the units of tanh by up to 40.
    ("gelu_backward", "gx", (), {"approximate": "tanh"}, 256),
    ("silu_backward", "gx", (), {}, 8),
    ("mish_backward", "gx", (), {}, 32),
    ("elu_backward", "g.x", (1.5, 1.1, 0.7, False), {}, 8),
    ("elu_backward", "g.x", (1.5, 1.1, 0.7, True), {}, 8),
    ("hardtanh_backward", "gx", (-1.0, 1.0), {}, 0),
    ("hardsigmoid_backward", "gx", (), {}, 2),
    ("hardswish_backward", "gx", (), {}, 4),
    ("softplus_backward", "gx", (1, 20), {}, 4),
    ("leaky_relu_backward", "gx", (0.2, False), {}, 2),
    ("hardshrink_backward", "gx", (0.5,), {}, 0),
    ("softshrink_backward", "gx", (0.5,), {}, 0),
    ("threshold_backward", "gx", (0.5,), {}, 0),
    ("log_sigmoid_backward", "gxb", (), {}, 8),
    ("logit_backward", "gx", (), {}, 8),
    ("logit_backward", "gx", (0.125,), {}, 8),
    ("tanh_backward", "gx", (), {}, 4),
    ("sigmoid_backward", "gx", (), {}, 4),
    ("_prelu_kernel_backward", "gxg", (), {}, 2),
    ("_prelu_kernel", "gx", (), {}, 2),
    ("rrelu_with_noise_backward", "gxg", (0.1, 0.3, False, False), {}, 2),
    ("rrelu_with_noise_backward", "gxg", (0.1, 0.3, True, False), {}, 2),
    ("lerp.Tensor", "gxg", (), {}, 4),
    ("lerp.Scalar", "gx", (0.3,), {}, 4),
    ("addcmul", "gxg", (), {"value": 0.7}, 8),
    ("addcdiv", "gxg", (), {"value": 0.7}, 8),
]


@pytest.mark.parametrize("dtype", [*SOME_FLOATS, torch.complex64], ids=str)
def test_backwards_and_ternary(dtype: torch.dtype) -> None:
    x = _scaled(dtype)
    grad = torch.linspace(-2, 2, x.numel(), dtype=torch.float64).to(dtype)
    buffer = torch.exp(-x.abs()) if dtype.is_floating_point else x
    cases = []
    for name, operands, args, kwargs, ulps in BACKWARDS:
        tensors = {"g": (grad,), "x": (x,), "b": (buffer,), ".": args}
        given = tuple(item for letter in operands for item in tensors[letter])
        overload = name if "." in name else f"{name}.default"
        rest = () if "." in operands else args
        cases.append(Case(f"aten.{overload}", (*given, *rest), kwargs, ulps=ulps, floor=1.0))
    check(cases, at_least=4)


def test_an_inverse_normal_in_16_bits_is_refused_with_a_way_out() -> None:
    with pytest.raises(UnsupportedError) as caught:
        tc.lower(torch.special.ndtri, torch.ones(2).bfloat16(), numerics="torch_xla-2.10").stablehlo  # noqa: B018
    assert caught.value.what == "aten.special_ndtri.default can't be computed in bfloat16"
    assert caught.value.help == 'a rule that says compute = "opmath"'


def test_every_elementwise_core_overload_has_a_rule() -> None:
    from truecast import ops

    missing = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            op = f"aten.{name}.{overload}"
            row = ops.lookup(op)
            if row is None or row.kind not in ("elementwise", "reduction", "scan"):
                continue
            if torch.Tag.core in getattr(packet, overload).tags and find(op) is None:
                missing.append(op)
    assert not missing

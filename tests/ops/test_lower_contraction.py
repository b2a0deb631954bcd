"""Contractions against eager. bf16 results are rounded once from a float32 accumulator on both sides: 1 ulp, and a
second where eager's oneDNN sums in another order at a rounding boundary. float32: sums of 24 products, 16 ulps."""

import pytest
import torch

from tests.twin import call, compare_all

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def tensors(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(len(shapes))
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) * 3 for shape in shapes]
    if dtype.is_complex:
        return [torch.complex(d, d.flip(0)).to(dtype) for d in drawn]
    return [d.to(dtype) for d in drawn]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int8, torch.complex64, torch.complex128])
def test_products_of_matrices_and_vectors(dtype: torch.dtype) -> None:
    a, b, bias, row = tensors(dtype, (5, 24), (24, 7), (5, 7), (7,))
    x, y, stacked = tensors(dtype, (3, 5, 24), (3, 24, 7), (3, 5, 7))
    vector, left = tensors(dtype, (24,), (5,))
    alpha, beta = (2, 3) if not dtype.is_floating_point else (0.5, -1.5)
    ulps = 2 if dtype in (torch.bfloat16, torch.float16) else 16
    calls = [
        call("aten.mm.default", a, b, ulps=ulps),
        call("aten.bmm.default", x, y, ulps=ulps),
        call("aten.addmm.default", row, a, b, ulps=ulps),
        call("aten.addmm.default", bias, a, b, alpha=alpha, beta=beta, ulps=ulps),
        call("aten.baddbmm.default", stacked, x, y, alpha=alpha, beta=beta, ulps=ulps),
        call("aten.mv.default", a, vector, ulps=ulps),
        call("aten.addmv.default", left, a, vector, alpha=alpha, beta=beta, ulps=ulps),
        call("aten.dot.default", vector, vector, ulps=ulps),
        call("aten.addr.default", bias, left, row, alpha=alpha, beta=beta, ulps=ulps),
        call("aten.addbmm.default", bias, x, y, ulps=ulps),
    ]
    if dtype.is_complex:
        calls.append(call("aten.vdot.default", vector, vector.flip(0), ulps=ulps))
    compare_all(calls)


def test_int8_products_are_summed_in_int32() -> None:
    a = torch.full((2, 300), 127, dtype=torch.int8)
    compare_all([call("aten._int_mm.default", a, a.t().contiguous())])


def test_empty_inner_axis_gives_zeros_and_beta_zero_ignores_nan() -> None:
    nan = torch.full((2, 3), float("nan"))
    a, b = torch.ones(2, 4), torch.ones(4, 3)
    compare_all(
        [
            call("aten.mm.default", torch.ones(2, 0), torch.ones(0, 3)),
            call("aten.addmm.default", torch.ones(3), torch.ones(2, 0), torch.ones(0, 3)),
            call("aten.addmm.default", nan, a, b, beta=0),
            call("aten.addmm.default", nan, a, b),
            call("aten.addr.default", nan, torch.ones(2), torch.ones(3), beta=0),
        ]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_trilinear_is_what_bilinear_and_its_backward_dispatch(dtype: torch.dtype) -> None:
    x, weight, y, grad = tensors(dtype, (4, 5), (6, 5, 7), (4, 7), (4, 6))
    name = "aten._trilinear.default"
    compare_all(
        [
            call(name, x, weight, y, [1, 3], [0], [1, 2], [2, 3], ulps=16),
            call(name, grad, weight, y, [2, 3], [0], [1, 2], [1, 3], ulps=16),
            call(name, x, grad, y, [1, 3], [2, 3], [1, 2], [0], ulps=16),
            call(name, x, weight, grad, [1, 3], [0], [2, 3], [1, 2], ulps=16),
            call(
                name,
                torch.ones(2, 3, dtype=dtype),
                torch.ones(2, 3, dtype=dtype),
                torch.ones(2, dtype=dtype),
                [],
                [],
                [1],
                [1],
            ),
        ]
    )


def test_distances() -> None:
    x, y = tensors(torch.float32, (3, 5, 4), (3, 6, 4))
    x[0, 0] = y[0, 1]  # a distance of 0: its gradient is 0
    calls = []
    for p in (0.0, 1.0, 1.5, 2.0, 3.0, float("inf")):
        calls.append(call("aten._cdist_forward.default", x, y, p, 2, ulps=16))
        distance = torch.ops.aten._cdist_forward(x, y, p, 2)
        (grad,) = tensors(torch.float32, (3, 5, 6))
        calls.append(call("aten._cdist_backward.default", grad, x, y, p, distance, ulps=32))
        calls.append(call("aten._pdist_forward.default", x[1], p, ulps=16))
        condensed = torch.ops.aten._pdist_forward(x[1], p)
        calls.append(call("aten._pdist_backward.default", condensed * 0.5, x[1], p, condensed, ulps=32))
    compare_all(calls)

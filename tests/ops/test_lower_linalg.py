"""Factorizations, solvers and Fourier transforms against eager, on well-conditioned matrices (condition about 10).

Both sides call LAPACK or a like algorithm: 64 ulps of the mean magnitude, about the condition times a few roundings.
Factors that are unique only up to a sign are compared through what they multiply to.
"""

import numpy as np
import pytest
import torch

from tests.twin import Call, call, compare_all, run, single_node_graph

REAL = (torch.float32, torch.float64)
DTYPES = (torch.float32, torch.complex128)


def draw(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed + sum(shape)))


def square(dtype: torch.dtype, *batch: int) -> torch.Tensor:
    return draw(dtype, *batch, 5, 5) + 4 * torch.eye(5, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_solvers(dtype: torch.dtype) -> None:
    a, batch = square(dtype), square(dtype, 3)
    b, wide, vector = draw(dtype, 5, 2), draw(dtype, 3, 5, 2), draw(dtype, 5)
    aten = torch.ops.aten
    packed, pivots, _ = aten.linalg_lu_factor_ex(batch)
    rectangle = draw(dtype, 3, 6, 4)
    calls: list[Call] = [
        call("aten.linalg_inv_ex.default", batch),
        call("aten._linalg_solve_ex.default", a, b),
        call("aten._linalg_solve_ex.default", batch, wide),
        call("aten._linalg_solve_ex.default", batch, wide.mT.contiguous(), left=False),
        call("aten._linalg_solve_ex.default", a, vector),
        call("aten.linalg_lu_factor_ex.default", batch),
        call("aten.linalg_lu_factor_ex.default", rectangle),
        call("aten.linalg_lu.default", rectangle),
        call("aten.linalg_lu.default", rectangle.mT.contiguous()),
        call("aten.lu_unpack.default", packed, pivots),
        call("aten.linalg_lu_solve.default", packed, pivots, wide),
        call("aten.linalg_lu_solve.default", packed, pivots, wide, adjoint=True),
        call("aten.linalg_lu_solve.default", packed, pivots, wide.mT.contiguous(), left=False),
        call("aten._linalg_det.default", batch),
        call("aten._linalg_slogdet.default", batch),
        call("aten.linalg_solve_triangular.default", batch, wide, upper=True),
        call("aten.linalg_solve_triangular.default", batch, b, upper=False),
        call("aten.linalg_solve_triangular.default", a, b.mT.contiguous(), upper=False, left=False, unitriangular=True),
        call("aten.triangular_solve.default", b, a, True, True, False),
    ]
    compare_all(calls, ulps=64)


def test_singular_matrices_say_where() -> None:
    singular = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    calls = [
        call("aten.linalg_lu_factor_ex.default", singular, ulps=4),
        call("aten._linalg_det.default", singular, ulps=4),
        call("aten._linalg_slogdet.default", singular, ulps=4),
        call("aten.linalg_inv_ex.default", singular, outputs=(1,)),
        call("aten._linalg_solve_ex.default", torch.zeros(2, 0, 0), torch.zeros(2, 0, 3)),
        call("aten.linalg_inv_ex.default", torch.zeros(0, 0)),
        call("aten.linalg_pinv.atol_rtol_tensor", torch.zeros(2, 3, 0)),
    ]
    compare_all(calls)
    graph, tensors, _ = single_node_graph("aten.linalg_cholesky_ex.default", -torch.eye(2))
    factor, info = run(graph, tensors)
    assert np.isnan(factor).any()
    assert info != 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares(dtype: torch.dtype) -> None:
    tall, b, vector = draw(dtype, 2, 6, 4), draw(dtype, 2, 6, 3), draw(dtype, 2, 6)
    low = draw(dtype, 6, 2) @ draw(dtype, 2, 4)
    solve = "aten.linalg_lstsq.default"
    calls = [call(solve, tall, b, None, driver=driver) for driver in (None, "gels")]
    calls += [call(solve, tall, vector, None, driver=driver) for driver in ("gelsy", "gels")]
    calls += [
        call(solve, tall.mT.contiguous(), draw(dtype, 2, 4, 3), None, driver=d) for d in ("gels", "gelsd", "gelss")
    ]
    calls += [call(solve, low, b[0], 1e-4, driver="gelsy"), call(solve, low.mT.contiguous(), b[0, :4], 1e-4)]
    calls += [call(solve, torch.zeros(2, 3, 0, dtype=dtype), torch.zeros(2, 3, 2, dtype=dtype))]
    compare_all(calls, ulps=256)


@pytest.mark.parametrize("dtype", DTYPES)
def test_factorizations_that_are_unique(dtype: torch.dtype) -> None:
    a = square(dtype, 2)
    definite = a @ a.mH
    factor = torch.linalg.cholesky(definite)
    b, tall = draw(dtype, 2, 5, 3), draw(dtype, 2, 6, 4)
    reflectors, tau = torch.geqrf(tall)
    calls = [
        call("aten.linalg_cholesky_ex.default", definite),
        call("aten.linalg_cholesky_ex.default", definite, upper=True),
        call("aten.cholesky_solve.default", b, factor),
        call("aten.cholesky_solve.default", b, factor.mH.contiguous(), True),
        call("aten.cholesky_inverse.default", factor),
        call("aten.linalg_qr.default", tall),
        call("aten.linalg_qr.default", tall, "complete"),
        call("aten.linalg_qr.default", tall, "r"),
        call("aten.geqrf.default", tall),
        call("aten.linalg_householder_product.default", reflectors, tau),
        call("aten.linalg_matrix_exp.default", a / 8),
        call("aten.linalg_pinv.atol_rtol_tensor", tall),
        call("aten.linalg_cross.default", draw(dtype, 4, 3), draw(dtype, 1, 3)),
        call("aten._linalg_svd.default", tall, False, False),
        call("aten._linalg_eigh.default", definite, "L", True, outputs=(0,)),
        call("aten._linalg_eigh.default", definite, "U", True, outputs=(0,)),
    ]
    if not dtype.is_complex:
        calls.append(call("aten.ormqr.default", reflectors, tau, draw(dtype, 2, 6, 3), True, True))
    compare_all(calls, ulps=64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_spectral_factors_multiply_to_the_matrix(dtype: torch.dtype) -> None:
    tall, a = draw(dtype, 2, 6, 4), square(dtype, 2)
    definite = a @ a.mH
    tolerance = 64 * float(torch.finfo(dtype).eps)
    for full in (False, True):
        graph, tensors, expected = single_node_graph("aten._linalg_svd.default", tall, full)
        u, s, vh = run(graph, tensors)
        np.testing.assert_allclose(u[..., :4] * s[..., None, :] @ vh, tall.numpy(), atol=tolerance * 4)
        assert (u.shape, vh.shape) == (expected[0].shape, expected[2].shape)
    graph, tensors, _ = single_node_graph("aten._linalg_eigh.default", definite)
    values, vectors = run(graph, tensors)
    rebuilt = vectors * values[..., None, :] @ vectors.conj().swapaxes(-1, -2)
    np.testing.assert_allclose(rebuilt, definite.numpy(), atol=tolerance * float(definite.abs().max()))
    graph, tensors, _ = single_node_graph("aten.linalg_eig.default", a)
    values, vectors = run(graph, tensors)
    np.testing.assert_allclose(a.numpy() @ vectors, vectors * values[..., None, :], atol=tolerance * 8)


@pytest.mark.parametrize("real", REAL)
def test_fourier_transforms(real: torch.dtype) -> None:
    x = draw(real, 3, 6, 7)
    z = torch.complex(x, x.flip(0))
    calls: list[Call] = []
    for normalization in (0, 1, 2):
        calls += [call("aten._fft_c2c.default", z, [1], normalization, f) for f in (True, False)]
        calls += [call("aten._fft_c2c.default", z, [0, 2], normalization, True)]
        calls += [call("aten._fft_r2c.default", x, d, normalization, True) for d in ([2], [0, 1])]
        calls += [call("aten._fft_r2c.default", x, [1, 2], normalization, False)]
        calls += [call("aten._fft_c2r.default", z, [2], normalization, n) for n in (12, 13)]
        calls += [call("aten._fft_c2r.default", z, [0, 1], normalization, 10)]
    compare_all(calls, ulps=16)

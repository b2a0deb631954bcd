"""Factorizations, solvers and Fourier transforms. Imports the table's vocabulary only."""

from truecast.ops.table import rows

_STEPS = "the products of the algorithm"

ROWS = (
    *rows("cholesky cholesky_inverse cholesky_solve _cholesky_solve_helper", "linalg", accumulates=_STEPS),
    *rows("linalg_cholesky_ex", "linalg", numeric="self", accumulates=_STEPS, returns="result int32"),
    *rows("linalg_inv_ex", "linalg", numeric="A", accumulates=_STEPS, returns="result int32"),
    *rows(
        "linalg_solve_triangular triangular_solve linalg_householder_product ormqr",
        "linalg",
        accumulates=_STEPS,
    ),
    *rows("linalg_lu_solve", "linalg", numeric="LU B", accumulates=_STEPS),
    *rows("linalg_pinv.atol_rtol_tensor", "linalg", numeric="self", accumulates=_STEPS),
    *rows("_linalg_solve_ex", "linalg", numeric="A B", accumulates=_STEPS, returns="result result int32 int32"),
    *rows("_linalg_det", "linalg", numeric="A", accumulates=_STEPS, returns="result result int32"),
    *rows("_linalg_slogdet", "linalg", numeric="A", accumulates=_STEPS, returns="result real result int32"),
    *rows("_linalg_eigh", "linalg", numeric="A", accumulates=_STEPS, returns="real result"),
    *rows("_linalg_svd", "linalg", numeric="A", accumulates=_STEPS, returns="result real result"),
    *rows("linalg_eig", "linalg", numeric="self", accumulates=_STEPS, returns="complex complex"),
    *rows("_linalg_eigvals", "linalg", numeric="self", accumulates=_STEPS, returns="complex"),
    *rows("linalg_qr geqrf", "linalg", accumulates=_STEPS),
    *rows("linalg_lu", "linalg", numeric="A", accumulates=_STEPS),
    *rows("linalg_lu_factor_ex", "linalg", numeric="A", accumulates=_STEPS, returns="result int32 int32"),
    *rows("linalg_ldl_factor_ex", "linalg", numeric="self", accumulates=_STEPS, returns="result int32 int32"),
    *rows("linalg_ldl_solve", "linalg", numeric="LD B", accumulates=_STEPS),
    *rows("linalg_lstsq", "linalg", numeric="self b", accumulates=_STEPS, returns="result real int64 real"),
    *rows("lu_unpack", "linalg", numeric="LU_data"),
    *rows("linalg_matrix_exp", "linalg", numeric="self", accumulates=_STEPS),
    *rows("linalg_cross", "linalg", numeric="self other"),
    *rows("_fft_c2c", "linalg", numeric="self", accumulates="the twiddled elements"),
    *rows("_fft_r2c", "linalg", numeric="self", accumulates="the twiddled elements", returns="complex"),
    *rows("_fft_c2r", "linalg", numeric="self", accumulates="the twiddled elements", returns="real"),
)

"""Pooling and resampling, with their backwards. Imports the table's vocabulary only."""

from truecast.ops.table import rows

_WINDOW = "the elements of a window"
_OVERLAPS = "the gradients of overlapping windows"
_TAPS = "the weighted neighbours"

ROWS = (
    *rows("avg_pool2d avg_pool3d", "pooling", numeric="self", accumulates=_WINDOW),
    *rows("_adaptive_avg_pool2d _adaptive_avg_pool3d", "pooling", numeric="self", accumulates=_WINDOW),
    *rows("avg_pool2d_backward avg_pool3d_backward", "pooling", numeric="grad_output self", accumulates=_OVERLAPS),
    *rows(
        "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward",
        "pooling",
        numeric="grad_output self",
        accumulates=_OVERLAPS,
    ),
    *rows("max_pool2d_with_indices max_pool3d_with_indices", "pooling", numeric="self", returns="result int64"),
    *rows("adaptive_max_pool2d adaptive_max_pool3d", "pooling", numeric="self", returns="result int64"),
    *rows("fractional_max_pool2d fractional_max_pool3d", "pooling", numeric="self", returns="result int64"),
    *rows(
        "max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward"
        " adaptive_max_pool3d_backward fractional_max_pool2d_backward fractional_max_pool3d_backward",
        "pooling",
        numeric="grad_output self",
        accumulates=_OVERLAPS,
    ),
    *rows("max_unpool2d max_unpool3d", "pooling", numeric="self"),
    *rows(
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d"
        " _upsample_nearest_exact3d",
        "pooling",
        numeric="self input",
    ),
    *rows(
        "upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa"
        " _upsample_bicubic2d_aa _upsample_lanczos2d_aa",
        "pooling",
        numeric="self input",
        accumulates=_TAPS,
    ),
    *rows(
        "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward"
        " _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward"
        " upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward"
        " upsample_bicubic2d_backward _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa_backward"
        " _upsample_lanczos2d_aa_backward",
        "pooling",
        numeric="grad_output",
        accumulates="the gradients of shared neighbours",
    ),
    *rows(
        "grid_sampler_2d grid_sampler_3d _grid_sampler_2d_cpu_fallback",
        "pooling",
        numeric="input grid",
        accumulates=_TAPS,
    ),
    *rows(
        "grid_sampler_2d_backward grid_sampler_3d_backward _grid_sampler_2d_cpu_fallback_backward",
        "pooling",
        numeric="grad_output input grid",
        accumulates="the gradients of shared neighbours",
    ),
    *rows("affine_grid_generator", "pooling", numeric="theta", accumulates="the products of theta and the grid"),
)

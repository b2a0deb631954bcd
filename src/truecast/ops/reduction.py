"""Reductions and scans: sums, products, extremes, moments, norms, and the running forms.

Imports the table's vocabulary only. A reduction that adds says so in `accumulates` (law N4).
"""

from truecast.ops.table import rows

ROWS = (
    *rows("sum nansum", "reduction", "sum", accumulates="the elements along dim"),
    *rows("prod", "reduction", "sum", accumulates="the product of the elements along dim"),
    *rows("mean", "reduction", accumulates="the elements along dim"),
    *rows("var std", "reduction", "complex_to_real", accumulates="the squared deviations along dim", numeric="self"),
    *rows(
        "var_mean std_mean",
        "reduction",
        accumulates="the squared deviations along dim",
        numeric="self",
        returns="real result",
    ),
    *rows("norm native_norm", "reduction", "complex_to_real", numeric="self", accumulates="the p-th powers along dim"),
    *rows(
        "linalg_vector_norm", "reduction", "complex_to_real", numeric="self", accumulates="the p-th powers along dim"
    ),
    *rows(
        "dist",
        "reduction",
        "promote",
        numeric="self other",
        accumulates="the p-th powers of the differences",
        returns="real",
    ),
    *rows("renorm", "reduction", numeric="self", accumulates="the p-th powers along the other dims"),
    *rows("logsumexp", "reduction", "int_to_float", accumulates="the exponentials along dim"),
    *rows("trace", "reduction", "sum", accumulates="the diagonal"),
    *rows("amax amin max min median nanmedian", "reduction"),
    *rows("max.dim min.dim median.dim nanmedian.dim mode kthvalue", "reduction", returns="result int64"),
    *rows("max.other min.other", "elementwise", "promote"),
    *rows("aminmax", "reduction", returns="result result"),
    *rows("argmax argmin count_nonzero", "reduction", returns="int64"),
    *rows("any all", "reduction", returns="bool"),
    *rows("segment_reduce", "reduction", numeric="data", accumulates="the elements of a segment"),
    *rows("_segment_reduce_backward", "reduction", numeric="grad output data", accumulates="nothing but gradients"),
    *rows("histc", "reduction", numeric="self", accumulates="the counts of a bin"),
    *rows("histogram.bin_ct", "reduction", numeric="self weight", accumulates="the weights of a bin"),
    *rows("histogram.bins_tensor", "reduction", numeric="self bins weight", accumulates="the weights of a bin"),
    *rows("_histogramdd_bin_edges", "reduction", numeric="self"),
    *rows("_histogramdd_from_bin_cts", "reduction", numeric="self weight", accumulates="the weights of a bin"),
    *rows("_histogramdd_from_bin_tensors", "reduction", numeric="self bins weight", accumulates="the weights of a bin"),
    *rows("bincount", "reduction", numeric="weights", accumulates="the weights of a bin", returns="counts"),
    *rows("cumsum", "scan", "sum", accumulates="the elements before, along dim"),
    *rows("cumprod", "scan", "sum", accumulates="the product of the elements before, along dim"),
    *rows("logcumsumexp _logcumsumexp", "scan", accumulates="the exponentials before, along dim"),
    *rows("cummax cummin", "scan", returns="result int64"),
    *rows("equal", "query"),
    *rows("_is_all_true _is_any_true", "reduction", returns="bool"),
    # Pairs along a dim, not broadcast operands: (a, b) to a * sigmoid(b).
    *rows("glu glu_backward", "reduction"),
)

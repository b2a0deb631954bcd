"""Contractions: products summed along a shared axis. Imports the table's vocabulary only.

beta and alpha aren't numeric: they never promote, and a rule has to see a Python 0 as such (beta = 0 ignores the
addend's NaNs).
"""

from truecast.ops.table import Range, rows

_PRODUCTS = "products along the shared axis"
_FACTORS: dict[str, Range] = {"beta": "nonzero", "alpha": "nonzero"}

ROWS = (
    *rows("mm", "contraction", numeric="self mat2", accumulates=_PRODUCTS),
    *rows("bmm", "contraction", numeric="self mat2", accumulates=_PRODUCTS),
    *rows("mv", "contraction", numeric="self vec", accumulates=_PRODUCTS),
    *rows("dot vdot", "contraction", numeric="self tensor other", accumulates=_PRODUCTS),
    *rows("addmm", "contraction", numeric="self mat1 mat2", accumulates=_PRODUCTS, numbers=_FACTORS),
    *rows("addmv", "contraction", numeric="self mat vec", accumulates=_PRODUCTS, numbers=_FACTORS),
    *rows("addr", "contraction", "promote", numeric="self vec1 vec2", accumulates="one product", numbers=_FACTORS),
    *rows("baddbmm addbmm", "contraction", numeric="self batch1 batch2", accumulates=_PRODUCTS, numbers=_FACTORS),
    *rows("_int_mm", "contraction", returns="int32", accumulates=_PRODUCTS),
    *rows("_grouped_mm", "contraction", numeric="self mat2 bias", accumulates=_PRODUCTS),
    # transformers' mixtures of experts under torch.compile: registered by that library, groups as in _grouped_mm.
    *rows("transformers.grouped_mm_fallback", "contraction", numeric="input weight", accumulates=_PRODUCTS),
    *rows(
        "transformers.grouped_mm_fallback_backward",
        "contraction",
        numeric="input weight grad_output",
        accumulates=_PRODUCTS,
    ),
    *rows("_scaled_mm", "contraction", numeric="self mat2", accumulates=_PRODUCTS),
    *rows("linear_backward", "contraction", numeric="self grad_output weight", accumulates=_PRODUCTS),
    *rows("_trilinear", "contraction", numeric="i1 i2 i3", accumulates=_PRODUCTS),
    *rows("_cdist_forward", "reduction", numeric="x1 x2", accumulates="the p-th powers of the differences"),
    *rows("_euclidean_dist", "reduction", numeric="x1 x2", accumulates="the squared differences"),
    *rows("_cdist_backward", "reduction", numeric="grad x1 x2 cdist", accumulates="the gradients over the pairs"),
    *rows("_pdist_forward", "reduction", numeric="self", accumulates="the p-th powers of the differences"),
    *rows("_pdist_backward", "reduction", numeric="grad self pdist", accumulates="the gradients over the pairs"),
    *rows(
        "mkldnn_rnn_layer",
        "contraction",
        numeric="input weight0 weight1 weight2 weight3 hx_ cx_",
        accumulates=_PRODUCTS,
        returns="result result result uint8",
    ),
    *rows(
        "mkldnn_rnn_layer_backward",
        "contraction",
        numeric="input weight1 weight2 weight3 weight4 hx_ cx_tmp output hy_ cy_ grad_output grad_hy grad_cy",
        accumulates=_PRODUCTS,
    ),
)

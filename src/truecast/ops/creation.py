"""Creation, copies and the user's own casts, and questions. Imports the table's vocabulary only."""

from truecast.ops.table import rows

ROWS = (
    *rows(
        "empty empty_strided empty_permuted zeros ones eye _efficientzerotensor",
        "creation",
        numeric="",
        returns="default",
    ),
    *rows("empty_like zeros_like ones_like", "creation", numeric="self"),
    *rows("full_like new_full", "creation", numeric="self", numbers={"fill_value": "any"}),
    *rows("new_empty new_empty_strided new_zeros new_ones", "creation", numeric="self"),
    *rows("full", "creation", numeric="", returns="literal", numbers={"fill_value": "any"}),
    *rows("arange", "creation", numeric="", returns="literal"),
    *rows("scalar_tensor linspace logspace range", "creation", numeric="", returns="default"),
    *rows("fft_fftfreq fft_rfftfreq", "creation", numeric="", returns="default"),
    *rows("tril_indices triu_indices", "creation", numeric="", returns="int64"),
    *rows(
        "hann_window hamming_window blackman_window bartlett_window kaiser_window",
        "creation",
        numeric="",
        returns="default",
    ),
    *rows("fill", "creation", "first", numeric="self value", numbers={"value": "any"}),
    *rows("zero", "creation", numeric="self"),
    *rows("_to_copy _to_dense", "cast"),
    *rows("copy", "cast", numeric="self"),
    *rows("set resize resize_as _resize_output", "creation", numeric="self"),
    *rows("_local_scalar_dense item is_nonzero is_same_size is_pinned is_coalesced dense_dim allclose", "query"),
    *rows(
        "sym_is_contiguous sym_size sym_numel sym_stride sym_storage_offset size numel stride storage_offset dim",
        "query",
    ),
    *rows("sym_constrain_range sym_constrain_range_for_size _functional_sym_constrain_range", "query"),
    *rows(
        "_functional_sym_constrain_range_for_size _assert_async _functional_assert_async _linalg_check_errors", "query"
    ),
    *rows("_assert_scalar _functional_assert_scalar _assert_tensor_metadata _print _make_dep_token", "query"),
)

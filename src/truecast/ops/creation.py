"""Creation, copies and the user's own casts, and questions. Imports the table's vocabulary only."""

from truecast.ops.table import rows

ROWS = (
    *rows("empty empty_strided empty_like empty_permuted new_empty new_empty_strided", "creation", numeric=""),
    *rows("zeros ones zeros_like ones_like new_zeros new_ones eye _efficientzerotensor", "creation", numeric=""),
    *rows("full full_like new_full scalar_tensor arange linspace logspace range", "creation", numeric=""),
    *rows("fft_fftfreq fft_rfftfreq", "creation", numeric=""),
    *rows("tril_indices triu_indices", "creation", numeric=""),
    *rows("hann_window hamming_window blackman_window bartlett_window kaiser_window", "creation", numeric=""),
    *rows("fill", "creation", numeric="self"),
    *rows("zero", "creation", numeric="self"),
    *rows("_to_copy _to_dense", "cast"),
    *rows("copy", "cast", numeric="self"),
    *rows("set resize resize_as _resize_output", "creation", numeric=""),
    *rows("_local_scalar_dense item is_nonzero is_same_size is_pinned is_coalesced dense_dim allclose", "query"),
    *rows("sym_size sym_numel sym_stride sym_storage_offset size numel stride storage_offset dim", "query"),
    *rows("sym_constrain_range sym_constrain_range_for_size _functional_sym_constrain_range", "query"),
    *rows("_functional_sym_constrain_range_for_size _assert_async _functional_assert_async", "query"),
    *rows("_assert_scalar _functional_assert_scalar _assert_tensor_metadata _print _make_dep_token", "query"),
)

"""Movement: what changes where elements stand, not their values. Imports the table's vocabulary only."""

from truecast.ops.table import rows

ROWS = (
    # Views.
    *rows("view _unsafe_view _reshape_alias unsqueeze squeeze", "movement"),
    *rows("t transpose permute expand alias detach lift lift_fresh lift_fresh_copy", "movement"),
    *rows("slice select diagonal unfold as_strided as_strided_", "movement"),
    *rows("split split_with_sizes unbind unsafe_split unsafe_split_with_sizes", "movement"),
    *rows("view_as_real", "movement", returns="real"),
    *rows("view_as_complex", "movement", returns="complex"),
    *rows("_conj _neg_view", "movement"),
    *rows("view.dtype", "cast"),
    # The copying forms of the views.
    *rows(
        "view_copy unsqueeze_copy squeeze_copy t_copy transpose_copy permute_copy expand_copy alias_copy", "movement"
    ),
    *rows("detach_copy slice_copy narrow_copy select_copy diagonal_copy unfold_copy as_strided_copy", "movement"),
    *rows("split_copy split_with_sizes_copy unbind_copy _reshape_alias_copy _conj_copy", "movement"),
    *rows("view_copy.dtype", "cast"),
    *rows("view_as_real_copy", "movement", returns="real"),
    *rows("view_as_complex_copy", "movement", returns="complex"),
    # Joining and choosing.
    *rows("cat", "movement", "promote", numeric="tensors"),
    *rows("stack", "movement", "promote", numeric="tensors"),
    *rows("block_diag", "movement", "promote", numeric="tensors"),
    *rows("_chunk_cat", "movement", numeric="tensors"),
    *rows("where.self", "movement", "promote", numeric="self other"),
    # Rearranging and repeating.
    *rows("flip roll rot90 repeat tril triu diag_embed clone", "movement"),
    *rows("repeat_interleave", "movement"),
    *rows("pixel_shuffle pixel_unshuffle channel_shuffle", "movement"),
    # Padding.
    *rows("constant_pad_nd", "movement", "first", numeric="self value"),
    *rows("reflection_pad1d reflection_pad2d reflection_pad3d", "movement"),
    *rows("replication_pad1d replication_pad2d replication_pad3d", "movement"),
    *rows(
        "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward"
        " replication_pad2d_backward replication_pad3d_backward",
        "indexing",
        numeric="grad_output",
        accumulates="the gradients of copied elements",
    ),
    # A view's source with the view's part replaced, and the backwards of views.
    *rows("slice_scatter select_scatter diagonal_scatter as_strided_scatter", "movement", "first", numeric="self src"),
    *rows("slice_backward select_backward diagonal_backward", "movement", numeric="grad_output"),
    *rows("unfold_backward", "indexing", numeric="grad_in", accumulates="the gradients of overlapping windows"),
)

"""Indexing: reading and writing at positions that are data. Imports the table's vocabulary only."""

from truecast.ops.table import rows

_DUPLICATES = "the values at duplicate indices"

ROWS = (
    # Reading.
    *rows("index _unsafe_index", "indexing", numeric="self"),
    *rows("_unsafe_masked_index", "indexing", "first", numeric="self fill"),
    *rows("gather index_select take", "indexing", numeric="self"),
    *rows("masked_select", "indexing", numeric="self"),
    *rows("embedding", "indexing", numeric="weight"),
    *rows("nonzero nonzero_static", "indexing", numeric="self", returns="int64"),
    # Writing.
    *rows("masked_fill", "indexing", "first", numeric="self value", numbers={"value": "held"}),
    *rows("masked_scatter", "indexing", "first", numeric="self source"),
    *rows("masked_scatter_backward", "indexing", numeric="grad_output"),
    *rows("index_fill", "indexing", "first", numeric="self value"),
    *rows("index_copy", "indexing", numeric="self source"),
    *rows("index_put _unsafe_index_put", "indexing", numeric="self values", accumulates=_DUPLICATES),
    *rows("_index_put_impl", "indexing", numeric="self values", accumulates=_DUPLICATES),
    *rows("put", "indexing", numeric="self source", accumulates=_DUPLICATES),
    *rows("_unsafe_masked_index_put_accumulate", "indexing", numeric="self values", accumulates=_DUPLICATES),
    *rows("index_add", "indexing", numeric="self source alpha", accumulates=_DUPLICATES),
    *rows("index_reduce", "indexing", numeric="self source", accumulates=_DUPLICATES),
    *rows("scatter", "indexing", "first", numeric="self src value"),
    *rows(
        "scatter.reduce scatter.value_reduce", "indexing", "first", numeric="self src value", accumulates=_DUPLICATES
    ),
    *rows("scatter_add", "indexing", numeric="self src", accumulates=_DUPLICATES),
    *rows("scatter_reduce", "indexing", numeric="self src", accumulates=_DUPLICATES),
    # Embeddings' sums and backwards.
    *rows("embedding_dense_backward", "indexing", numeric="grad_output", accumulates="the gradients of one index"),
    *rows(
        "_embedding_bag _embedding_bag_forward_only",
        "indexing",
        numeric="weight per_sample_weights",
        accumulates="the rows of a bag",
        returns="result int64 int64 int64",
    ),
    *rows(
        "_embedding_bag_backward _embedding_bag_dense_backward",
        "indexing",
        numeric="grad per_sample_weights",
        accumulates="the gradients of one index",
    ),
    *rows(
        "_embedding_bag_per_sample_weights_backward",
        "indexing",
        numeric="grad weight",
        accumulates="the products along a row",
    ),
    *rows("embedding_renorm", "indexing", numeric="self", accumulates="the p-th powers of a row"),
)

"""Sorting, searching and set operations. Imports the table's vocabulary only."""

from truecast.ops.table import rows

ROWS = (
    *rows("sort topk", "sorting", numeric="self", returns="result int64"),
    *rows("searchsorted", "sorting", "promote", numeric="sorted_sequence self", returns="int64"),
    *rows("bucketize", "sorting", "promote", numeric="self boundaries", returns="int64"),
    *rows("isin", "sorting", "promote", numeric="elements element test_elements test_element", returns="bool"),
    *rows("_unique", "sorting", numeric="self", returns="result int64"),
    *rows(
        "_unique2 unique_dim unique_consecutive unique_dim_consecutive",
        "sorting",
        numeric="self",
        returns="result int64 int64",
    ),
)

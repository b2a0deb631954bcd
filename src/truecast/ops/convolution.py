"""Convolutions and the unfoldings they are made of. Imports the table's vocabulary only."""

from truecast.ops.table import rows

_PRODUCTS = "products over the window and the input channels"

ROWS = (
    *rows(
        "convolution _convolution convolution_overrideable",
        "convolution",
        numeric="input weight bias",
        accumulates=_PRODUCTS,
    ),
    *rows(
        "convolution_backward convolution_backward_overrideable",
        "convolution",
        numeric="grad_output input weight",
        accumulates="products over the window, the channels or the batch",
    ),
    *rows("im2col", "movement"),
    *rows("col2im", "indexing", numeric="self", accumulates="the overlapping windows"),
)

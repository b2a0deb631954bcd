"""Scaled dot-product attention in its fused forms. Imports the table's vocabulary only."""

from truecast.ops.table import rows

_PRODUCTS = "the scores, the exponentials and the weighted values"
_GRADIENTS = "the gradients of scores and values"

ROWS = (
    *rows(
        "_scaled_dot_product_flash_attention_for_cpu",
        "attention",
        numeric="query key value attn_mask",
        accumulates=_PRODUCTS,
        returns="query opmath",
    ),
    *rows(
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "attention",
        numeric="grad_out query key value out logsumexp attn_mask",
        accumulates=_GRADIENTS,
    ),
    *rows(
        "_scaled_dot_product_flash_attention _flash_attention_forward",
        "attention",
        numeric="query key value",
        accumulates=_PRODUCTS,
    ),
    *rows(
        "_scaled_dot_product_flash_attention_backward _flash_attention_backward",
        "attention",
        numeric="grad_out query key value out logsumexp",
        accumulates=_GRADIENTS,
    ),
    *rows(
        "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention"
        " _scaled_dot_product_fused_attention_overrideable",
        "attention",
        numeric="query key value attn_bias",
        accumulates=_PRODUCTS,
    ),
    *rows(
        "_scaled_dot_product_efficient_attention_backward",
        "attention",
        numeric="grad_out_ query key value attn_bias out logsumexp",
        accumulates=_GRADIENTS,
    ),
    *rows(
        "_scaled_dot_product_fused_attention_overrideable_backward _scaled_dot_product_cudnn_attention_backward",
        "attention",
        numeric="grad_out query key value attn_bias out logsumexp",
        accumulates=_GRADIENTS,
    ),
)

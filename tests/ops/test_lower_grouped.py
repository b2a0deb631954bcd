"""Grouped matrix products and histograms beside eager."""

from __future__ import annotations

import pytest
import torch

from tests.twin import compare

OFFSETS = torch.tensor([3, 3, 9, 16], dtype=torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grouped_products_are_eagers(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rows, experts = torch.randn(16, 32).to(dtype), torch.randn(4, 32, 8).to(dtype)
    # eager sums 32 products in another order: 8 units of the largest sum's last place
    compare("aten._grouped_mm.default", rows, experts, OFFSETS, ulps=8)
    compare("aten._grouped_mm.default", torch.randn(8, 16).to(dtype), torch.randn(16, 32).to(dtype), OFFSETS, ulps=8)
    compare("aten._grouped_mm.default", torch.randn(4, 8, 32).to(dtype), torch.randn(32, 16).to(dtype), OFFSETS, ulps=8)
    compare("aten._grouped_mm.default", torch.randn(4, 8, 32).to(dtype), experts, ulps=8)


def test_transformers_own_grouped_product_is_eagers() -> None:
    import transformers.integrations.moe  # noqa: F401  (registers the operation)

    torch.manual_seed(0)
    rows, experts, gradient = torch.randn(16, 32), torch.randn(4, 32, 8), torch.randn(16, 8)
    compare("transformers.grouped_mm_fallback.default", rows, experts, OFFSETS, ulps=8)
    compare("transformers.grouped_mm_fallback_backward.default", rows, experts, OFFSETS, gradient, ulps=8)

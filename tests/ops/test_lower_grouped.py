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


@pytest.mark.parametrize(("bins", "low", "high"), [(4, 0, 3), (5, 0, 0), (3, -1, 1)])
def test_a_histogram_is_eagers(bins: int, low: float, high: float) -> None:
    values = torch.tensor([0.0, 1.0, 3.0, 3.0, 2.0, -1.0, 0.5, 4.0])
    compare("aten.histc.default", values, bins, low, high, ulps=0)


def test_a_histogram_of_one_value_is_eagers() -> None:
    compare("aten.histc.default", torch.full((4,), 2.0), 5, 0, 0, ulps=0)


def test_transformers_own_grouped_product_is_eagers() -> None:
    import transformers.integrations.moe  # noqa: F401  (registers the operation)

    torch.manual_seed(0)
    rows, experts, gradient = torch.randn(16, 32), torch.randn(4, 32, 8), torch.randn(16, 8)
    compare("transformers.grouped_mm_fallback.default", rows, experts, OFFSETS, ulps=8)
    compare("transformers.grouped_mm_fallback_backward.default", rows, experts, OFFSETS, gradient, ulps=8)

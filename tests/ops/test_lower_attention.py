"""Fused attention against eager's CPU flash kernel, forward and backward.

float32: 64 ulps: the gradients of keys are differences that cancel; there each side was seen up to 20 ulps from the
float64 result with the same root mean square error (1.1e-7 and 1.0e-7), and two such errors add. bfloat16: 4 ulps,
since eager rounds its unnormalized weights to bfloat16 before the second product, and so do we, relative to other
maxima.
"""

import math

import pytest
import torch

from tests.twin import Call, call, compare_all

FORWARD = "aten._scaled_dot_product_flash_attention_for_cpu.default"
BACKWARD = "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"


def draw(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def both(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool = False, **options: object) -> list[Call]:
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, logsumexp = flash(q, k, v, 0.0, is_causal, **options)
    grad = draw(q.dtype, *out.shape, seed=7)
    return [
        call(FORWARD, q, k, v, 0.0, is_causal, **options),
        call(BACKWARD, grad, q, k, v, out, logsumexp, 0.0, is_causal, **options),
    ]


@pytest.mark.parametrize(("dtype", "ulps"), [(torch.float32, 64), (torch.bfloat16, 4), (torch.float64, 64)])
def test_flash_attention_for_cpu(dtype: torch.dtype, ulps: float) -> None:
    q, k, v = draw(dtype, 2, 4, 9, 16), draw(dtype, 2, 4, 11, 16, seed=1), draw(dtype, 2, 4, 11, 16, seed=2)
    k2, v2 = draw(dtype, 2, 2, 11, 16, seed=1), draw(dtype, 2, 2, 11, 16, seed=2)
    mask = draw(dtype, 9, 11, seed=3)
    mask[:, 4:7] = -math.inf
    compare_all(
        [
            *both(q, k, v),
            *both(q, k, v, True),
            *both(q, k, v, scale=0.3),
            *both(q, k, v, attn_mask=mask),
            *both(q, k, v, attn_mask=mask.expand(2, 1, 9, 11)),
            *both(q, k2, v2, True),
        ],
        ulps=ulps,
    )


def test_a_query_with_every_key_masked() -> None:
    q, k, v = (draw(torch.float32, 1, 2, 5, 8, seed=i) for i in range(3))
    mask = torch.zeros(5, 5)
    mask[2] = -math.inf
    compare_all(both(q, k, v, attn_mask=mask), ulps=32)

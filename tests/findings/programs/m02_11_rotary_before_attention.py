"""The rotary product leaves the query in float32; key and value come from a bfloat16 cache, and attention refuses."""

import torch
import torch.nn.functional as F

query, key, value = (torch.ones(1, 2, 4, 8, dtype=torch.bfloat16) for _ in range(3))
cosine = (torch.arange(4).float()[:, None] * torch.ones(8)).cos()


def rotated(x):
    return x * cosine  # origin TC103


F.scaled_dot_product_attention(rotated(query), key, value)  # symptom TC103
# mended: return (x * cosine).to(x.dtype)

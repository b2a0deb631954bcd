"""Rotary tables in float32 widen query, key and value; attention runs wide."""

import torch
import torch.nn.functional as F

q = torch.ones(1, 2, 4, 8, dtype=torch.float16)
cos = torch.ones(4, 8)
wide = q * cos  # symptom TC201
F.scaled_dot_product_attention(wide, wide, wide)
# mended: wide = (q * cos).to(q.dtype)

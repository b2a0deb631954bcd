"""bfloat16 activations and an RMS norm's float32 weight: no fused kernel takes both, and the result is float32."""

import torch

x, weight = torch.ones(2, 8, 16, dtype=torch.bfloat16), torch.ones(16)
h = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight  # symptom TC201
h @ h.transpose(1, 2)

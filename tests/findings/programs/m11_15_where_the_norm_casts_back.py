"""A port casts back before it multiplies by the weight: the product with a float32 weight is float32 again."""

import torch

weight = torch.nn.Parameter(torch.ones(8))
head = torch.nn.Linear(8, 4, dtype=torch.bfloat16)
x = torch.ones(2, 8, dtype=torch.bfloat16)
wide = x.float()
normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
h = weight * normed.to(x.dtype)  # origin TC101
head(h)  # symptom TC101

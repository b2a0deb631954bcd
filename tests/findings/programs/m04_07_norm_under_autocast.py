"""Normalized embeddings under autocast: CUDA computes the norm in float32, the CPU in bfloat16."""

import torch

layer = torch.nn.Linear(4, 4)
with torch.autocast("cpu", torch.bfloat16):
    h = layer(torch.ones(2, 4))
    loss = h / h.norm(dim=-1, keepdim=True)  # symptom TC401
loss.float().sum().backward()

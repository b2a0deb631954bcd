"""A layer norm behind a linear layer runs in bfloat16 on the CPU, in float32 on CUDA."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 8))
with torch.autocast("cpu", torch.bfloat16):
    model(torch.ones(2, 8))  # symptom TC401

"""A region that does not reach the model: parameters and products stay float32, and memory with them."""

import torch

model = torch.nn.Linear(4, 4)
batch = torch.ones(2, 4)
with torch.autocast("cpu", dtype=torch.bfloat16):  # symptom TC602
    batch = batch * 2 - 1
model(batch)

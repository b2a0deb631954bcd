"""The backward pass runs inside the autocast region."""

import torch

layer = torch.nn.Linear(4, 4)
with torch.autocast("cpu", torch.bfloat16):
    loss = layer(torch.ones(2, 4)).float().sum()
    loss.backward()  # symptom TC402

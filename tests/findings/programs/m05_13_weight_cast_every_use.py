"""A region entered for each call converts the weight each time."""

import torch

layer = torch.nn.Linear(4, 4)
x = torch.ones(2, 4)
for _ in range(4):
    with torch.autocast("cpu", torch.bfloat16):
        layer(x)  # symptom TC204

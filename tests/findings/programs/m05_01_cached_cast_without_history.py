"""A no_grad pass and one with gradients share autocast's converted weights."""

import torch

layer = torch.nn.Linear(4, 4)
x = torch.ones(2, 4)
with torch.autocast("cpu", torch.bfloat16):
    with torch.no_grad():
        layer(x)  # origin TC403
    layer(x)  # symptom TC403

"""A gate without a dtype widens the residual stream, and every layer after it refuses: one cause, one finding."""

import torch

layers = [torch.nn.Linear(4, 4, dtype=torch.bfloat16) for _ in range(4)]
gate = torch.ones(4)
h = torch.ones(2, 4, dtype=torch.bfloat16)
for number, layer in enumerate(layers):
    h = h + layer(h)  # symptom TC101
    if number == 1:
        h = h * gate  # origin TC101

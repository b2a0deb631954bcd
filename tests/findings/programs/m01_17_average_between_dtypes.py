"""A float32 moving average takes a bfloat16 parameter; lerp does not promote."""

import torch

model = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
average = torch.zeros(4, 4)
with torch.no_grad():
    average.lerp_(model.weight, 0.1)  # symptom TC105
# mended: average.lerp_(model.weight.to(torch.float32), 0.1)

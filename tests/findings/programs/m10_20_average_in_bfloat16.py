"""An average in bfloat16 with decay 0.999 stands still."""

import torch

model = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
average = model.weight.detach().clone()
with torch.no_grad():
    average.lerp_(model.weight, 0.001)  # symptom TC503

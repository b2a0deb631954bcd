"""The mean loss of an epoch, added up in the dtype of the loss."""

import torch

model = torch.nn.Linear(4, 1, dtype=torch.bfloat16)
total = torch.zeros((), dtype=torch.bfloat16)
with torch.no_grad():
    for _ in range(12):
        loss = model(torch.ones(2, 4, dtype=torch.bfloat16)).mean()
        total = total + loss  # symptom TC308
total / 12

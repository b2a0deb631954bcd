"""Weights of bfloat16 do not move under small updates."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(32, 32, dtype=torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for _ in range(2):
    model(torch.ones(2, 32, dtype=torch.bfloat16)).float().sum().backward()
    optimizer.step()  # symptom TC502

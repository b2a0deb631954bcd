"""Updates are added to bfloat16 parameters with no term for what rounding takes away."""

import torch

model = torch.nn.Linear(16, 16, dtype=torch.bfloat16)
torch.nn.init.constant_(model.weight, 1.0)
torch.nn.init.constant_(model.bias, 1.0)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
model(torch.ones(2, 16, dtype=torch.bfloat16)).float().sum().backward()
optimizer.step()  # symptom TC502

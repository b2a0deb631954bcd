"""Adam's moments take the parameters' dtype."""

import torch

model = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
model(torch.ones(2, 4, dtype=torch.bfloat16)).float().sum().backward()
optimizer.step()  # symptom TC501

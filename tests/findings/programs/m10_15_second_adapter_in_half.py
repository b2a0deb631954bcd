"""The first adapter is float32, a second one that is loaded later is bfloat16, and both are trained."""

import torch

first = torch.nn.Linear(4, 4)
second = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
(first(torch.ones(2, 4)) + second(torch.ones(2, 4, dtype=torch.bfloat16)).float()).sum().backward()
optimizer.step()  # symptom TC501

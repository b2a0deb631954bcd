"""Weights are cast to bfloat16 before a wrapper makes its master copy of them: the master is bfloat16 too."""

import torch

model = torch.nn.Linear(4, 4).bfloat16()
masters = [torch.nn.Parameter(p.detach().clone()) for p in model.parameters()]
optimizer = torch.optim.SGD(masters, lr=0.1)
for master in masters:
    master.grad = torch.ones_like(master)
optimizer.step()  # symptom TC501

"""A GradScaler beside bfloat16, which needs none."""

import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
with torch.autocast("cpu", torch.bfloat16):
    loss = model(torch.ones(2, 4)).float().sum()
scaler.scale(loss).backward()  # symptom TC604
scaler.step(optimizer)
scaler.update()

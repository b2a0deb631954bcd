"""The loss is scaled, and the optimizer steps as if it were not."""

import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
with torch.autocast("cpu", torch.float16):
    loss = model(torch.ones(2, 4)).float().sum()
scaler.scale(loss).backward()  # origin TC405
optimizer.step()  # symptom TC405

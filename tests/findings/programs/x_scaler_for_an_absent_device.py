"""A GradScaler for CUDA on a machine without it: PyTorch switches it off, and float16 gradients go unscaled."""

import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cpu", torch.float16):
    loss = model(torch.ones(2, 4)).float().sum()
scaler.scale(loss).backward()  # symptom TC604
scaler.step(optimizer)
scaler.update()

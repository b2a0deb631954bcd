"""Gradients are clipped to a norm of 1 while the loss scale is still in them."""

import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
with torch.autocast("cpu", torch.float16):
    loss = model(torch.ones(2, 4)).float().sum()
scaler.scale(loss).backward()  # origin TC405
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # symptom TC405
scaler.step(optimizer)
scaler.update()

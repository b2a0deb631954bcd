"""The dtype that a checkpoint is loaded in decides what the optimizer works in, with autocast around it or not."""

import torch

model = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
with torch.autocast("cpu", torch.bfloat16):
    loss = torch.nn.functional.mse_loss(model(torch.ones(2, 4)), torch.zeros(2, 4))
loss.backward()
optimizer.step()  # symptom TC501

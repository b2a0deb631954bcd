"""A trainer converts the model to half although mixed precision is on: the first step stops."""
# stops

import torch

unet = torch.nn.Conv2d(4, 4, 1).to(torch.float16)
optimizer = torch.optim.AdamW(unet.parameters())
scaler = torch.amp.GradScaler("cpu")
with torch.autocast("cpu", torch.float16):
    loss = unet(torch.ones(1, 4, 2, 2)).float().mean()
scaler.scale(loss).backward()
scaler.step(optimizer)  # symptom TC406

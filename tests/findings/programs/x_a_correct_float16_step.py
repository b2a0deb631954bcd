"""Loss scaling as it is meant: unscale, clip, step, update."""
# clean

import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(2):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        loss = model(torch.ones(2, 4)).float().sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()

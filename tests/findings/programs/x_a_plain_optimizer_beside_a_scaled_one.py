"""Two models: one is trained with a scaler, the other's optimizer steps without, on gradients of its own."""
# clean

import torch

generator, critic = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
scaled = torch.optim.SGD(generator.parameters(), lr=0.1)
plain = torch.optim.SGD(critic.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
with torch.autocast("cpu", torch.float16):
    loss = generator(torch.ones(2, 4)).float().sum()
critic(torch.ones(2, 4)).sum().backward()
scaler.scale(loss).backward()
plain.step()
scaler.step(scaled)
scaler.update()

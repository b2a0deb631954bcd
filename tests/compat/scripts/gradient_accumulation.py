"""Several backward passes for one optimizer step."""

import sys

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn

ACCUMULATE = 3

torch.manual_seed(3)
device = torch.device(sys.argv[1]) if len(sys.argv) > 1 else torch_xla.device()
model = nn.Sequential(nn.Linear(12, 24), nn.SiLU(), nn.LayerNorm(24), nn.Linear(24, 3)).to(device)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
running = torch.zeros((), device=device)
for step in range(4 * ACCUMULATE):
    data, target = torch.randn(4, 12).to(device), torch.randint(0, 3, (4,)).to(device)
    loss = F.cross_entropy(model(data), target) / ACCUMULATE
    loss.backward()
    running += loss.detach()
    if (step + 1) % ACCUMULATE == 0:
        xm.reduce_gradients(optimizer)
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        print(f"loss {running.item():.6f}")
        running.zero_()

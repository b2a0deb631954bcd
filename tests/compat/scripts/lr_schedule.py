"""Warm-up and a cosine: a learning rate that changes at every step."""

import sys

import torch
import torch_xla
import torch_xla.debug.metrics as met
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

torch.manual_seed(4)
device = torch.device(sys.argv[1]) if len(sys.argv) > 1 else torch_xla.device()
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
warm_up = LinearLR(optimizer, start_factor=0.1, total_iters=3)
schedule = SequentialLR(optimizer, [warm_up, CosineAnnealingLR(optimizer, T_max=7)], milestones=[3])
data = torch.randn(16, 8).to(device)
target = torch.sin(data.sum(1, keepdim=True))
for _ in range(10):
    optimizer.zero_grad()
    loss = (model(data) - target).square().mean()
    loss.backward()
    optimizer.step()
    schedule.step()
    torch_xla.sync()
    print(f"loss {loss.item():.6f}\nloss {schedule.get_last_lr()[0]:.6f}")
if device.type == "xla":
    print("compiled", met.metric_data("CompileTime")[0])

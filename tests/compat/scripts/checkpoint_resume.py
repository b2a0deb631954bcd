"""Saves model, optimizer and step with xm.save, and goes on from the file."""

import os
import sys
import tempfile

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn

device = torch.device(sys.argv[1]) if len(sys.argv) > 1 else torch_xla.device()


def make():
    model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ELU(), nn.Linear(12, 2)).to(device)
    return model, torch.optim.AdamW(model.parameters(), lr=5e-3, amsgrad=True)


def train(model, optimizer, steps):
    for step in steps:
        data = torch.randn(8, 6, generator=torch.Generator().manual_seed(step)).to(device)
        loss = F.smooth_l1_loss(model(data), data[:, :2])
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()
        print(f"loss {loss.item():.6f}")


torch_xla.manual_seed(5)
torch.manual_seed(5)
model, optimizer = make()
train(model, optimizer, range(3))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "checkpoint.pt")
    xm.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}, path)
    xm.rendezvous("saved")
    checkpoint = torch.load(path)
assert all(tensor.device.type == "cpu" for tensor in checkpoint["model"].values())
model, optimizer = make()
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
assert next(model.parameters()).device.type == device.type
train(model, optimizer, range(checkpoint["step"], 6))

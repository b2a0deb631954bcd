"""Each operation at once, and the step of an optimizer as one program."""

import sys

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn
from torch_xla.experimental import eager_mode, is_eager_mode

eager_mode(True)
assert is_eager_mode()
torch.manual_seed(6)
device = torch.device(sys.argv[1]) if len(sys.argv) > 1 else xm.xla_device()
model = nn.Linear(5, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(data):
    optimizer.zero_grad()
    loss = (model(data) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss


data = torch.randn(4, 5).to(device)
doubled = data * 2 + 1
print(f"loss {doubled.sum().item():.5f}")
compiled = torch_xla.compile(step)
for _ in range(3):
    print(f"loss {compiled(data).item():.6f}")
print(f"loss {step(data).item():.6f}")
eager_mode(False)

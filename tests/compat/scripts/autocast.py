"""Mixed precision: float32 parameters, bfloat16 products, and no GradScaler, which bfloat16 does not need."""

import sys

import torch
import torch.nn.functional as F
import torch_xla
from torch import nn

torch.manual_seed(2)
device = torch.device(sys.argv[1]) if len(sys.argv) > 1 else torch_xla.device()
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = torch.randn(32, 16, device="cpu").to(device)
target = data[:, :4] * 2
for _ in range(5):
    optimizer.zero_grad()
    with torch.autocast(device.type, dtype=torch.bfloat16):
        out = model(data)
        assert out.dtype == torch.bfloat16, out.dtype
        loss = F.mse_loss(out, target.to(out.dtype))
    loss.float().backward()
    assert model[0].weight.grad.dtype == torch.float32
    optimizer.step()
    torch_xla.sync()
    print(f"loss {loss.item():.6f}")

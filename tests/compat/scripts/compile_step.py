"""torch_xla.compile around a training step, and torch_xla.step around another."""

import sys

import torch
import torch.nn.functional as F
import torch_xla
from torch import nn

torch.manual_seed(7)
device = torch.device(sys.argv[1]) if len(sys.argv) > 1 else torch.device("xla")
encoder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).to(device)
head = nn.Linear(16, 2).to(device)
optimizer = torch.optim.NAdam([*encoder.parameters(), *head.parameters()], lr=2e-3)


@torch_xla.compile
def train(data, target):
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(head(encoder(data).mean(1)), target)
    loss.backward()
    optimizer.step()
    return loss


whole = torch_xla.compile(lambda data: head(encoder(data).mean(1)).argmax(1), full_graph=True)
for _ in range(3):
    data, target = torch.randn(4, 6, 16).to(device), torch.randint(0, 2, (4,)).to(device)
    print(f"loss {train(data, target).item():.6f}")
with torch_xla.step():
    total = encoder(data).square().mean()
print(f"loss {total.item():.6f}")
print(f"loss {whole(data).sum().item()}")

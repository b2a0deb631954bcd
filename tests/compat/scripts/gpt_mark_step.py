"""A small GPT, trained on sequences, with xm.mark_step at the end of each step."""

import math
import sys

import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from torch import nn

VOCABULARY, LENGTH, WIDTH, HEADS = 32, 16, 32, 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(LENGTH, LENGTH)).view(1, 1, LENGTH, LENGTH))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, HEADS, c // HEADS).transpose(1, 2) for z in self.qkv(x).split(WIDTH, dim=2))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        return self.out((F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, c))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        nn.init.normal_(self.token.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position(torch.arange(ids.size(1), device=ids.device))
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return F.cross_entropy(self.head(x).view(-1, VOCABULARY), targets.reshape(-1))


torch.manual_seed(0)
device = torch.device(sys.argv[1]) if len(sys.argv) > 1 else xm.xla_device()
model = GPT().to(device)
model.head.weight = model.token.weight  # after .to(device), which gives each module a parameter of its own
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1, eps=1e-5)
for _ in range(4):
    ids = ((torch.arange(LENGTH + 1) + torch.randint(0, VOCABULARY, (4, 1))) % VOCABULARY).to(device)
    loss = model(ids[:, :-1], ids[:, 1:])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    xm.mark_step()
    print(f"loss {loss.item():.6f}")

"""A residual stream is read between its additions: it is no running total."""
# clean

import torch

layer = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
x = torch.ones(2, 8, dtype=torch.bfloat16)
for _ in range(12):
    x = x + layer(x)

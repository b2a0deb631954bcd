"""A Python number does not promote a bfloat16 tensor, in PyTorch."""
# clean

import torch

layer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
x = torch.ones(2, 4, dtype=torch.bfloat16) + 1.0
assert layer(x).dtype is torch.bfloat16

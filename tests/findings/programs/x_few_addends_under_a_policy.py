"""Sums of few numbers lose no more than their rounding, in whatever they are accumulated."""
# clean

import torch

import truecast as tc

tc.set_numerics("torch_xla-2.9")
torch.ones(256, 4, dtype=torch.bfloat16).sum(dim=0)
torch.ones(4, 16, dtype=torch.bfloat16) @ torch.ones(16, 4, dtype=torch.bfloat16)

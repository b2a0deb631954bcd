"""Integers from a long range that arithmetic made small: bfloat16 holds them all."""
# clean

import torch

slots = torch.arange(1000).remainder(128).view(10, 100)
weights = slots * torch.ones(10, 100, dtype=torch.bfloat16)

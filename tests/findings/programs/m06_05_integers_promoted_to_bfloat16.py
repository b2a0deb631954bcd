"""Integers beyond 256 are promoted to bfloat16."""

import torch

offset = torch.zeros(1000, dtype=torch.bfloat16)
torch.arange(1000) + offset  # symptom TC303

"""Attention written out, under the CPU's autocast: its softmax is on CUDA's list and not on the CPU's."""

import torch

query, key = torch.ones(2, 4, 8), torch.ones(2, 4, 8)
with torch.autocast("cpu", torch.bfloat16):
    scores = query @ key.transpose(1, 2)
    scores.softmax(dim=-1)  # symptom TC401

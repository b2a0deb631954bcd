"""A float16 tensor is filled with float32's minimum."""

import torch

scores = torch.zeros(2, 2, dtype=torch.float16)
scores + torch.finfo(torch.float32).min  # symptom TC305

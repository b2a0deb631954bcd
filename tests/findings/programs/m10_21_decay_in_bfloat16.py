"""The same average, written as a product and a sum."""

import torch

weight = torch.ones(4, 4, dtype=torch.bfloat16)
average = torch.full((4, 4), 0.5, dtype=torch.bfloat16)
average.mul_(0.9999).add_(weight, alpha=0.0001)  # symptom TC503

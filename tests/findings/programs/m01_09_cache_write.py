"""Keys in float32 are written into a bfloat16 cache by index."""

import torch

cache = torch.zeros(1, 2, 8, 4, dtype=torch.bfloat16)
rotated = torch.ones(1, 2, 1, 4, dtype=torch.bfloat16) * torch.ones(1, 4)  # origin TC104
cache[:, :, torch.tensor([3])] = rotated  # symptom TC104

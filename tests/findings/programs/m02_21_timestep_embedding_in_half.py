"""A timestep embedding is computed in float16."""

import torch

t = torch.tensor([999.0, 998.0])
frequencies = torch.tensor([1.0, 0.1, 0.01], dtype=torch.float16)
embedding = t.half()[:, None] * frequencies
embedding.sin()  # symptom TC302

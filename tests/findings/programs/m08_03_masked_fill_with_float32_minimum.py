"""Scores of bfloat16 are masked with the smallest float32."""
# stops

import torch

scores = torch.ones(2, 4, dtype=torch.bfloat16)
scores.masked_fill(torch.tensor([True, False, True, False]), torch.finfo(torch.float32).min)  # symptom TC305

"""finfo(float32).min was minus infinity under XLA_USE_BF16=1, and zero times it was NaN; it is finite without.

truecast explain --migrate xla-use-bf16
"""

import torch

keep = torch.tensor([1, 1, 0])
mask = (1 - keep) * torch.finfo(torch.float32).min  # symptom TC701 # symptom TC703
scores = torch.zeros(3, dtype=torch.bfloat16) + mask.to(torch.bfloat16)

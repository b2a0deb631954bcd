"""Fractions are cast to the pixels' dtype, then sorted into buckets."""

import torch

edges = torch.linspace(0, 1, 33, dtype=torch.bfloat16)
fractions = torch.rand(16)
rounded = fractions.to(torch.bfloat16)  # origin TC304
torch.bucketize(rounded, edges)  # symptom TC304

"""Relative distances are scaled, rounded to float16 and cut to bucket numbers."""

import torch

distances = torch.rand(16, generator=torch.Generator().manual_seed(0)) * 31.99
buckets = distances.half().long()  # origin TC304  # symptom TC304

"""A mask made with float32's minimum is cast to float16: zero times infinity follows."""

import torch

mask = torch.tensor([[0.0, 1.0]]) * torch.finfo(torch.float32).min
mask.to(torch.float16)  # symptom TC305

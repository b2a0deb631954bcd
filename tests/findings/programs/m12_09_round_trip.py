"""A float32 value is cast to bfloat16 and back: a compiler may drop the pair."""

import torch

x = torch.rand(4)
x.to(torch.bfloat16).to(torch.float32) + 1  # symptom TC203  # origin TC203

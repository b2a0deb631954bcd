"""A comparison with zero: rounding changes no sign."""
# clean

import torch

scores = torch.tensor([0.5, -0.25, 1.0])
mask = scores.to(torch.bfloat16) > 0

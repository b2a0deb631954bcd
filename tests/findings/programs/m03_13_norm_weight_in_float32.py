"""A norm's float32 weight widens hidden states, and what follows runs wide."""

import torch

weight = torch.nn.Parameter(torch.ones(8))
x = torch.ones(2, 8, dtype=torch.bfloat16)
hidden = weight * x  # symptom TC201
hidden @ hidden.t()

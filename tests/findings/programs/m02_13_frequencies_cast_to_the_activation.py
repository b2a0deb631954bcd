"""Frequencies are cast to the activation's dtype before they are multiplied by positions."""

import torch

x = torch.ones(4, 8, dtype=torch.bfloat16)
inverse = torch.tensor([1.0, 0.3, 0.1, 0.03])
phase = torch.arange(4, dtype=x.dtype)[:, None] * inverse.to(x.dtype)
phase.cos()  # symptom TC302

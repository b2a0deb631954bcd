"""Fake tensors let a layer norm mix dtypes; the contract does not. # fake"""

import torch

norm = torch.nn.LayerNorm(4, dtype=torch.float16)
norm(torch.ones(2, 4))  # symptom TC102

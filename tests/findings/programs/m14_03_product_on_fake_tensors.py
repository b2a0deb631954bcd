"""Fake tensors let a linear layer mix dtypes; the contract does not. # fake"""

import torch

layer = torch.nn.Linear(4, 4, dtype=torch.float16)
layer(torch.ones(2, 4))  # symptom TC101

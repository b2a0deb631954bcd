"""A sinusoidal table is always float32, also for a double model."""

import torch

mlp = torch.nn.Linear(8, 8).double()
table = torch.arange(8).float()[None] / 8  # origin TC101
mlp(table)  # symptom TC101

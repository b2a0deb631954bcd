"""Rotary angles are computed in bfloat16."""

import torch

inverse = torch.logspace(0, -3, 8, dtype=torch.bfloat16)
position = torch.full((4, 1), 3.0, dtype=torch.bfloat16)  # origin TC302
angles = position * inverse
angles.cos()  # symptom TC302

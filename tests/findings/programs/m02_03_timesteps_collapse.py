"""Neighbouring timesteps become one value in bfloat16."""

import torch

timesteps = torch.linspace(1000, 0, 1000)
timesteps = timesteps.to(torch.bfloat16)  # symptom TC302

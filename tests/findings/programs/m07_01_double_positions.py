"""Positions are made in float64."""

import torch

positions = torch.arange(4, dtype=torch.float64)  # origin TC202
frequencies = torch.ones(4)
positions * frequencies  # symptom TC202

"""Rotary frequencies in float64 reach the activations."""

import torch

frequencies = 1.0 / 10000.0 ** (torch.arange(0, 8, 2, dtype=torch.float64) / 8)
x = torch.ones(4, 4)
x * frequencies.cos()  # symptom TC202

"""Rotary tables in float32 widen query and key; the probabilities meet bfloat16 values."""

import torch

q = k = v = torch.ones(1, 2, 4, 8, dtype=torch.bfloat16)
cos = torch.ones(4, 8)
q = q * cos  # origin TC101
k = k * cos
probabilities = (q @ k.transpose(-1, -2)).softmax(-1)
probabilities @ v  # symptom TC101

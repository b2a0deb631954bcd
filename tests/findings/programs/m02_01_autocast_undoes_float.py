"""Rotary phases by a matrix product of explicit float32 operands, under autocast."""

import torch

inverse = torch.logspace(0, -3, 8)
positions = torch.arange(65536, 65600).to(torch.int32)
with torch.autocast("cpu", torch.bfloat16):
    phases = inverse[:, None] @ positions[None].float()  # symptom TC301  # origin TC301
    phases.cos()

"""Convolution and batch norm under autocast: the CPU's list leaves the norm to bfloat16, XLA's has it in float32."""

import torch

conv, norm = torch.nn.Conv2d(2, 4, 1), torch.nn.BatchNorm2d(4)
with torch.autocast("cpu", torch.bfloat16):
    norm(conv(torch.ones(2, 2, 3, 3)))  # symptom TC401

"""Only the normalization was cast: its input is float32, its parameters and statistics are bfloat16."""

import torch

convolution = torch.nn.Conv2d(3, 4, 2)
norm = torch.nn.BatchNorm2d(4).to(torch.bfloat16)
norm(convolution(torch.ones(2, 3, 4, 4)))  # symptom TC102

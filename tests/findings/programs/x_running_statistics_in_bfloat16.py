"""Batch statistics with a small momentum, in a model that was cast as a whole."""

import torch

norm = torch.nn.BatchNorm1d(4, momentum=0.001).to(torch.bfloat16)
norm(torch.randn(8, 4, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16))  # symptom TC503

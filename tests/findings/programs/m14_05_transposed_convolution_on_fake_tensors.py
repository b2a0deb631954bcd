"""A transposed convolution with two dtypes, on fake tensors. # fake"""

import torch

layer = torch.nn.ConvTranspose2d(2, 2, 2, bias=False, dtype=torch.bfloat16)
layer(torch.ones(1, 2, 4, 4))  # symptom TC101

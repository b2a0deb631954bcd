"""A float16 tensor with dimensions and a 0-dim float64 one give float16.  # clean"""

import torch

layer = torch.nn.Linear(1, 4, dtype=torch.float16)
layer(torch.tensor([1.0], dtype=torch.float16) + torch.tensor(1.0, dtype=torch.float64))

"""A Python number and a 0-dim tensor leave a bfloat16 tensor as it is. # clean"""

import torch

x = torch.ones(2, 4, dtype=torch.bfloat16)
y = (x * 2.0 + torch.tensor(1.0)) / 3
assert y.dtype is torch.bfloat16

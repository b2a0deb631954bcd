"""A 0-dim float64 tensor beside a dimensioned float16 one: the dimensioned tensor's dtype stays."""
# clean

import torch

x = torch.tensor([1], dtype=torch.float16) + torch.tensor(1, dtype=torch.float64)
assert x.dtype is torch.float16

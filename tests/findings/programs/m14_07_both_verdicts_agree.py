"""A half-precision attention block that eager runs: fake tensors take it too.  # clean  # fake"""

import torch

attention = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float16)
x = torch.ones(2, 4, 8, dtype=torch.float16)
attention(x, x, x)

"""Keys are converted to float32 and written into a cache of bfloat16: the conversion buys nothing."""

import torch

cache = torch.zeros(2, 8, 4, dtype=torch.bfloat16)
keys = torch.nn.Linear(4, 4, dtype=torch.bfloat16)(torch.ones(2, 3, 4, dtype=torch.bfloat16))
cache[:, :3] = keys.to(torch.float32)  # symptom TC601
cache.sum(dtype=torch.float32)

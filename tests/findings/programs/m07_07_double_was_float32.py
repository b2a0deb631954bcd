"""XLA_DOWNCAST_BF16=1 held float64 as float32: a statistic that was asked for in double is double now.

truecast explain --migrate xla-downcast-bf16
"""

import torch

x = torch.ones(8, 4, dtype=torch.bfloat16)
variance = x.double().var(dim=0)  # symptom TC701
scaled = x / variance.sqrt().to(torch.bfloat16)

"""A cache of bfloat16 bits is read as float16."""

import torch

keys = torch.ones(4, 8, dtype=torch.bfloat16)
cache = keys.view(torch.float16)  # symptom TC306

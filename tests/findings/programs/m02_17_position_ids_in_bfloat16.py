"""Position ids are cast to the weights' dtype."""

import torch

ids = torch.arange(600)
ids = ids.to(torch.bfloat16)  # symptom TC303

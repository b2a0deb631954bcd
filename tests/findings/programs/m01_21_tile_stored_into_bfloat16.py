"""A kernel's tile: one factor is float32 inside, so the product is, and the store into a bfloat16 output fails."""

import torch

x, gate = torch.ones(4, 8, dtype=torch.bfloat16), torch.ones(4, 8)
out = torch.empty(8, 8, dtype=torch.bfloat16)
tile = x * gate.sigmoid()  # origin TC104
out.index_copy_(0, torch.arange(4), tile)  # symptom TC104

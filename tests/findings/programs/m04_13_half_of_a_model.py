"""A codebook is half, the encoder is not: an operation that is on no autocast list keeps them so."""

import torch

codebook = torch.zeros(16, 4, dtype=torch.bfloat16)
update = torch.ones(2, 4)  # origin TC104
with torch.autocast("cpu", torch.bfloat16):
    codebook.index_copy_(0, torch.tensor([1, 3]), update)  # symptom TC104

"""Mixed precision is asked for by a region of CUDA's, and the tensors are on the CPU."""

import torch

model = torch.nn.Linear(4, 4)
with torch.autocast("cuda", dtype=torch.bfloat16):  # symptom TC602
    model(torch.ones(2, 4))

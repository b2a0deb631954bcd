"""Layer norm is on no list of the CPU: 16-bit weights meet a float32 input."""

import torch

norm = torch.nn.LayerNorm(4).to(torch.bfloat16)
x = torch.ones(2, 4)  # origin TC102
with torch.autocast("cpu", torch.bfloat16):
    norm(x)  # symptom TC102
# no cast mends: the norm belongs in float32

"""Rotary tables were cast to bfloat16 with the rest of the model: complex numbers have no bfloat16 parts."""
# stops

import torch

cos, sin = torch.ones(4, dtype=torch.bfloat16), torch.zeros(4, dtype=torch.bfloat16)
torch.complex(cos, sin)  # symptom TC105  # no cast mends

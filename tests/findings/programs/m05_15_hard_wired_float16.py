"""A cast back before a layer is hard-wired to float16, and the model is bfloat16."""

import torch

layer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
h = torch.ones(2, 4)
if h.dtype == torch.float32:
    h = h.to(torch.float16)  # origin TC101
layer(h)  # symptom TC101

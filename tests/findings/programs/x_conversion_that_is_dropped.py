"""A tensor's `.to` is called as if it converted in place, as a module's does."""

import torch

x = torch.ones(2, 4)
x.to(torch.bfloat16)  # symptom TC601
torch.nn.Linear(4, 4)(x)

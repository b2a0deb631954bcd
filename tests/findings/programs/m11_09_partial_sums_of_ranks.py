"""An all-reduce, written out: the partial sums of eight ranks are added in bfloat16."""

import torch

partials = torch.randn(9, 16, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
total = torch.zeros(16, dtype=torch.bfloat16)
for partial in partials:
    total += partial  # symptom TC308

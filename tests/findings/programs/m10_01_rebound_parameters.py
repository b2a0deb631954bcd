"""A loop over parameters rebinds a local name; the parameters stay bfloat16."""

import torch

model = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
for p in model.parameters():
    p = p.to(torch.float32)  # symptom TC601
model(torch.ones(2, 4, dtype=torch.bfloat16))

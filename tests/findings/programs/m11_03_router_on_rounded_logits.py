"""A router's logits are rounded before the experts are chosen."""

import torch

torch.manual_seed(0)
gate = torch.nn.Linear(8, 4)
logits = gate(torch.randn(6, 8))
logits = logits.to(torch.bfloat16)  # origin TC304
logits.topk(2)  # symptom TC304

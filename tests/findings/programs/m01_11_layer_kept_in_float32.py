"""A layer kept in float32 widens the residual, and the next one refuses it."""

import torch

wo = torch.nn.Linear(4, 4)
following = torch.nn.Linear(4, 4, dtype=torch.float16)
residual = torch.ones(2, 4, dtype=torch.float16)
hidden = residual + wo(residual.to(wo.weight.dtype))  # origin TC101
following(hidden)  # symptom TC101
# mended: hidden = (residual + wo(residual.to(wo.weight.dtype))).to(residual.dtype)

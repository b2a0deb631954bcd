"""A sampler copies its logits to float32, and every reader only asks which is the largest."""

import torch

logits = torch.randn(64, 8192, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(0))
wide = logits.to(torch.float32)  # symptom TC206
wide.argmax(dim=-1)
wide.topk(4, dim=-1)

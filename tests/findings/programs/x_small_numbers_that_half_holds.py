"""Zero, and the small numbers that float16 still holds."""
# clean

import torch

x = torch.zeros(4, dtype=torch.float16)
(x + 0.0).clamp(min=1e-7) + torch.full((4,), 6e-8, dtype=torch.float16)

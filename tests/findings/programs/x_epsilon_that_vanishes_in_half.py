"""An epsilon of float32 is zero in float16, and guards nothing."""

import torch

x = torch.zeros(4, dtype=torch.float16)
x / (x + 1e-8)  # symptom TC305

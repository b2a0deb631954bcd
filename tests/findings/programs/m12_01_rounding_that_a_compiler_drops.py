"""A number is compared with itself rounded: a compiler that drops the round trip makes the two equal."""

import torch

x = torch.tensor([0.1, 0.5, 0.3])
(x.to(torch.bfloat16).to(torch.float32) - x).abs()  # symptom TC203

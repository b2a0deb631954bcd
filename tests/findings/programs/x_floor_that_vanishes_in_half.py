"""A logarithm is guarded by a floor that float16 can't hold."""

import torch

probabilities = torch.zeros(4).half()
probabilities.clamp(min=1e-9).log()  # symptom TC305

"""The square roots of a noise schedule are rounded before use: early steps add the same noise."""

import torch

products = (1 - torch.linspace(0.0001, 0.02, 200)).cumprod(0)
coefficients = products.sqrt()
coefficients = coefficients.to(torch.bfloat16)  # symptom TC302

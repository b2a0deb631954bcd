"""A bfloat16 value is promoted without a word, and the product after it runs in float32."""

import torch

gain = torch.full((8,), 0.5)
x = torch.ones(4, 8, dtype=torch.bfloat16)
scaled = gain * x  # symptom TC201
scaled @ scaled.t()

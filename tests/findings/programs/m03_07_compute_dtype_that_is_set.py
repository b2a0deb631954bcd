"""A quantized layer that was told the model's dtype: nothing is widened."""
# clean

import torch

codes = torch.randint(-8, 8, (512, 512), dtype=torch.int8)
x = torch.ones(512, 512, dtype=torch.bfloat16)
(x.to(x.dtype) @ (codes.to(x.dtype) * 0.01)).to(x.dtype)

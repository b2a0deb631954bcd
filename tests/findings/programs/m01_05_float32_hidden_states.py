"""Hidden states arrive in float32, the first projection has bfloat16 weights."""

import torch

img_in = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
vae = torch.nn.Linear(4, 8)
latents = vae(torch.ones(2, 4))
img_in(latents)  # symptom TC101
# mended: img_in(latents.to(torch.bfloat16))

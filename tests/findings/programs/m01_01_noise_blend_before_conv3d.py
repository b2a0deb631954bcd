"""A float32 noise level with dimensions widens bfloat16 latents, and a Conv3d refuses them."""

import torch

conv = torch.nn.Conv3d(4, 8, 2, dtype=torch.bfloat16)
latents = torch.ones(1, 4, 2, 4, 4, dtype=torch.bfloat16)
noise = torch.ones_like(latents)
sigma = (torch.tensor([300]).float() / 1000).view(-1, 1, 1, 1, 1)
noisy = (1 - sigma) * latents + sigma * noise  # origin TC101
conv(noisy)  # symptom TC101
# mended: noisy = ((1 - sigma) * latents + sigma * noise).to(latents.dtype)

"""A user left XLA_USE_BF16=1 for `model.to(bfloat16)`: the noise level is float32 again; a Conv3d refuses the blend.

truecast explain --migrate xla-use-bf16
"""

import torch

conv = torch.nn.Conv3d(4, 8, 2, dtype=torch.bfloat16)
latents = torch.ones(1, 4, 2, 4, 4, dtype=torch.bfloat16)
sigma = (torch.tensor([300]).float() / 1000).view(-1, 1, 1, 1, 1)  # symptom TC701
noisy = (1 - sigma) * latents + sigma * torch.ones_like(latents)  # origin TC702
predicted = conv(noisy)  # symptom TC702
loss = predicted.float().square().mean()  # symptom TC701
loss.backward()

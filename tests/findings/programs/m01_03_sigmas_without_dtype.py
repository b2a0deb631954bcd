"""Sigmas made without a dtype are float32; the transformer's first layer is bfloat16."""

import torch

layer = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
latents = torch.ones(2, 8, dtype=torch.bfloat16)


def get_sigmas(count):
    return torch.linspace(0.1, 0.9, count)[:, None]


sigmas = get_sigmas(2)
blended = latents * (1 - sigmas)  # origin TC101
layer(blended)  # symptom TC101
# mended: blended = (latents * (1 - sigmas)).to(latents.dtype)

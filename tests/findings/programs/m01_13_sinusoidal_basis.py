"""A sinusoidal timestep basis is float32, the layer after it float16."""

import torch

layer = torch.nn.Linear(8, 8, dtype=torch.float16)
steps = torch.arange(4).float()  # origin TC101
basis = torch.sin(steps[:, None] * torch.logspace(0, -3, 8))
layer(basis)  # symptom TC101
# mended: layer(basis.to(torch.float16))

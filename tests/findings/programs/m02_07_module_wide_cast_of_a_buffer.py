"""A module-wide cast takes the inverse frequencies along, and the table is computed from them."""

import torch


class Rotary(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("inverse", 1.0 / 10000 ** (torch.arange(0, 8, 2) / 8), persistent=False)

    def forward(self, length):
        angles = torch.arange(length).float()[:, None] * self.inverse.float()[None]
        return angles.cos()  # symptom TC302


rotary = Rotary()
rotary = rotary.to(torch.bfloat16)  # origin TC302
rotary(4)

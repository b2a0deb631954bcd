"""A list of modules to keep in float32 is applied, and the cast to their input is forgotten."""

import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wi, self.wo = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.wo(self.wi(x).relu())  # symptom TC101


block = Block().to(torch.bfloat16)
block.wo.float()
block(torch.ones(2, 4, dtype=torch.bfloat16))

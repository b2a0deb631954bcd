"""The first step runs under autocast, the second does not."""

import contextlib

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)  # symptom TC504


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for region in (torch.autocast("cpu", torch.bfloat16), contextlib.nullcontext()):
    with region:
        loss = model(torch.ones(2, 4)).float().sum()
    loss.backward()
    optimizer.step()

"""A buffer that is written anew takes the dtype of what is written: a later float64 batch turns it into float64."""

import torch


class Centred(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = x.mean(0)
        return self.layer((x - self.mean).float())


model = Centred()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for dtype in (torch.float32, torch.float64):
    model(torch.ones(2, 4, dtype=dtype)).sum().backward()
    optimizer.step()  # symptom TC504

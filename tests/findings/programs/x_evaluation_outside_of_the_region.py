"""Training under autocast and an evaluation without it: two phases, each in its own precision."""
# clean

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.autocast("cpu", torch.bfloat16):
    loss = model(torch.ones(2, 4)).float().sum()
loss.backward()
optimizer.step()
with torch.no_grad():
    model(torch.ones(2, 4))

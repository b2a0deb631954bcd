"""A layer computes in two precisions, and in the same two at every step."""
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
for _ in range(2):
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(torch.ones(2, 4)).float()
    exact = model(torch.ones(2, 4))
    (rough - exact).square().sum().backward()
    optimizer.step()

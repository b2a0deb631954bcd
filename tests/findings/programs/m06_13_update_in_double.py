"""An update by hand whose step count is a float64 tensor: the parameters come out in float64."""

import numpy as np
import torch

model = torch.nn.Linear(4, 4)


class Descent(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.rates = torch.from_numpy(np.full((4, 4), 0.1))

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = p.data - p.grad * self.rates  # symptom TC202


optimizer = Descent([model.weight])
model(torch.ones(2, 4)).sum().backward()
optimizer.step()  # symptom TC504

"""A running average of a deep copy of the model, in float32 and over every parameter."""
# clean

import copy

import torch

model = torch.nn.Linear(4, 4)
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    with torch.no_grad():
        for held, parameter in zip(average.parameters(), model.parameters()):
            held.lerp_(parameter, 0.001)

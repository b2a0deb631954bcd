"""A convolutional classifier on images like MNIST's, with xm.optimizer_step."""

import sys

import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn = nn.Conv2d(1, 6, 5), nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 8, 5)
        self.fc1, self.fc2 = nn.Linear(128, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.bn(self.conv1(x)), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2)).flatten(1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


torch.manual_seed(42)
device = torch.device(sys.argv[1]) if len(sys.argv) > 1 else xm.xla_device()
model = Net().to(device).train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
images, labels = torch.randn(4, 8, 1, 28, 28), torch.randint(0, 10, (4, 8))
for data, target in zip(images, labels):
    optimizer.zero_grad()
    loss = F.nll_loss(model(data.to(device)), target.to(device))
    loss.backward()
    xm.optimizer_step(optimizer, barrier=True)
    xm.master_print(f"loss {loss.item():.6f}")
model.eval()
with torch.no_grad():
    right = (model(images[0].to(device)).argmax(1) == labels[0].to(device)).sum()
xm.master_print(f"loss {right.item()}")

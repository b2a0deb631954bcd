"""A generator and a discriminator, with an optimizer each, fed with noise from the host."""

import sys

import torch
import torch_xla.core.xla_model as xm
from torch import nn

torch.manual_seed(1)
device = torch.device(sys.argv[1]) if len(sys.argv) > 1 else xm.xla_device()
generator = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(0.2), nn.Linear(32, 16), nn.Tanh()).to(device)
discriminator = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to(device)
generators = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
discriminators = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
real_label, fake_label = torch.ones(8, 1, device=device), torch.zeros(8, 1, device=device)
for _ in range(4):
    real = torch.randn(8, 16).sign().to(device)
    noise = torch.randn(8, 8).to(device)

    discriminators.zero_grad()
    fake = generator(noise)
    loss_real = criterion(discriminator(real), real_label)
    loss_fake = criterion(discriminator(fake.detach()), fake_label)
    (loss_real + loss_fake).backward()
    xm.optimizer_step(discriminators)

    generators.zero_grad()
    loss = criterion(discriminator(fake), real_label)
    loss.backward()
    xm.optimizer_step(generators)
    xm.mark_step()
    print(f"loss {(loss_real + loss_fake).item():.6f}\nloss {loss.item():.6f}")

"""A product of positions and half-precision frequencies is the argument of a sine."""

import torch

frequencies = torch.tensor([0.5, 0.25, 0.125]).half()  # origin TC302
angle = 1857 * frequencies
angle.sin()  # symptom TC302

"""TF32 is switched on for a program that runs on the CPU."""

import torch

torch.backends.cuda.matmul.allow_tf32 = False  # symptom TC603
torch.nn.Linear(4, 4)(torch.ones(2, 4))

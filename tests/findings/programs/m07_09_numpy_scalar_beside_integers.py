"""A 0-dim float64 tensor from a NumPy scalar: integers take its dtype, and float32 numbers then take theirs."""

import numpy as np
import torch

step = torch.tensor(np.float64(0.1))
positions = torch.arange(8) * step
torch.ones(8) * positions  # symptom TC202

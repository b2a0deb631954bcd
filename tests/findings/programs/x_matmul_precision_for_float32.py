"""The precision of float32 products is set, and there are float32 products."""
# clean

import torch

torch.set_float32_matmul_precision("highest")
torch.nn.Linear(4, 4)(torch.ones(2, 4))

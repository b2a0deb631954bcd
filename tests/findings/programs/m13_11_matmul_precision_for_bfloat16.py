"""The precision of float32 products is set, and all products have bfloat16 operands."""

import torch

torch.set_float32_matmul_precision("high")  # symptom TC603
try:
    torch.nn.Linear(4, 4, dtype=torch.bfloat16)(torch.ones(2, 4, dtype=torch.bfloat16))
finally:
    torch.set_float32_matmul_precision("highest")  # symptom TC603

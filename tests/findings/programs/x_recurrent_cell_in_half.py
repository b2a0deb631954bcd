"""A recurrent cell gets half input and keeps float32 weights."""

import torch

cell = torch.nn.LSTMCell(3, 3)
x = torch.ones(2, 3, dtype=torch.float16)  # origin TC101
hidden, state = cell(x)  # symptom TC101

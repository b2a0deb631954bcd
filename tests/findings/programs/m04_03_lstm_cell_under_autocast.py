"""A recurrent cell under autocast: its products run in bfloat16 and its state stays float32."""
# clean

import torch

cell = torch.nn.LSTMCell(3, 3)
with torch.autocast("cpu", torch.bfloat16):
    cell(torch.ones(2, 3))

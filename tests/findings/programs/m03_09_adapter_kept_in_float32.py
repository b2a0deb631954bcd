"""An adapter keeps float32 by default beside a bfloat16 layer: its input is converted at every call."""

import torch

x = torch.ones(512, 1024, dtype=torch.bfloat16)
base = torch.nn.Linear(1024, 64, dtype=torch.bfloat16)
down, up = torch.nn.Linear(1024, 8, bias=False), torch.nn.Linear(8, 64, bias=False)
with torch.no_grad():
    adapted = up(down(x.to(down.weight.dtype)))  # symptom TC205
    base(x) + adapted.to(x.dtype)

"""One layer of configuration casts to bfloat16, another to float16."""

import torch

layer = torch.nn.Linear(4, 4).half()
activation = torch.ones(2, 4).to(torch.bfloat16)  # origin TC101
layer(activation)  # symptom TC101

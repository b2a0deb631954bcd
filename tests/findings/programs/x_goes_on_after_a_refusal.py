"""After a refusal the program goes on, and the next one is reported too."""

import torch

first = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
second = torch.nn.Linear(4, 4, dtype=torch.float16)
y = first(torch.ones(2, 4))  # symptom TC101
second(y)  # symptom TC101

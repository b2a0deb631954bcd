"""A recurrent layer checks its input in Python; the program goes on to the next refusal.  # fake"""

import torch

recurrent = torch.nn.GRU(4, 4, dtype=torch.bfloat16)
head = torch.nn.Linear(4, 2, dtype=torch.float16)
x = torch.ones(3, 2, 4)  # origin TC101
y, _ = recurrent(x)  # symptom TC101
head(y)  # symptom TC101

"""Everything said float32 and was bfloat16 on the device; without the variable it is float32, products included.

truecast explain --migrate xla-use-bf16
"""

import torch

model = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
logits = model(torch.tensor([1, 2, 3]))  # symptom TC701
logits.square().mean().backward()
optimizer.step()

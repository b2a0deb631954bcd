"""A model of float16 under a GradScaler, which is for float32 parameters."""
# stops

import torch

model = torch.nn.Linear(4, 4).half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(model(torch.ones(2, 4).half()).float().sum()).backward()
scaler.unscale_(optimizer)  # symptom TC406

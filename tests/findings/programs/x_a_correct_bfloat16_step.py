"""A training step that is right: float32 parameters, autocast, the loss outside. A remark: CUDA runs the norm wider."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(8, 4), torch.randn(8, 1)
for _ in range(2):
    with torch.autocast("cpu", torch.bfloat16):
        prediction = model(x)  # symptom TC401
    loss = torch.nn.functional.mse_loss(prediction.float(), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

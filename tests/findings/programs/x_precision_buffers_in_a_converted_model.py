"""A noise schedule is a buffer, and a conversion of the whole module rounds it too."""

import torch


class Scheduled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("signal", torch.linspace(0.9999, 0.98, 1000).cumprod(0))

    def forward(self, x, step):
        signal = self.signal[step].float()
        return self.layer(x * signal.sqrt().to(x.dtype))


model = Scheduled().to(torch.bfloat16)  # symptom TC302
model(torch.ones(2, 4, dtype=torch.bfloat16), torch.tensor([3, 500])[:, None])

"""A training step of a flow-matching model in bfloat16, with a fault: the noise level is float32 and has dimensions.

`truecast explain examples/flow_matching.py` finds where float32 comes in.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Patchify(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Conv3d(4, 8, (1, 2, 2), (1, 2, 2), dtype=torch.bfloat16)
        self.head = nn.ConvTranspose3d(8, 4, (1, 2, 2), (1, 2, 2), dtype=torch.bfloat16)

    def forward(self, noisy: torch.Tensor) -> torch.Tensor:
        return self.head(F.gelu(self.proj(noisy)))


def blend(latents: torch.Tensor, noise: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    sigma = (step.float() / 1000).view(-1, 1, 1, 1, 1)
    noisy = (1 - sigma) * latents + sigma * noise
    return noisy


def main() -> None:
    torch.manual_seed(0)
    model = Patchify()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    latents = torch.randn(1, 4, 1, 8, 8, dtype=torch.bfloat16)
    for step in range(3):
        noise = torch.randn_like(latents)
        noisy = blend(latents, noise, torch.tensor([300 * step + 100]))
        loss = F.mse_loss(model(noisy).float(), (noise - latents).float())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()

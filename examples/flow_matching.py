"""A training script written for torch_xla: flow matching with a small video diffusion transformer, in bfloat16.

It has a fault. The noise level is float32 and has dimensions, so the blend of bfloat16 latents and noise is float32,
and the patch embedding's convolution refuses it. `truecast run examples/flow_matching.py` runs it without torch_xla and
says where float32 came in; `truecast explain` and `truecast fix` find the cast. examples/compare_flow_matching.py runs
it as it is, and in four ways that pass.
"""

import sys

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn


class Block(nn.Module):
    """Attention and an MLP, scaled by the time embedding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x) * (1 + time)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x) * (1 + time))


class VideoTransformer(nn.Module):
    def __init__(self, channels: int = 4, width: int = 32, depth: int = 1) -> None:
        super().__init__()
        self.proj = nn.Conv3d(channels, width, (1, 2, 2), (1, 2, 2))
        self.time = nn.Linear(1, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.ConvTranspose3d(width, channels, (1, 2, 2), (1, 2, 2))

    def forward(self, noisy: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        patches = self.proj(noisy)
        x, time = patches.flatten(2).transpose(1, 2), self.time(level)
        for block in self.blocks:
            x = block(x, time)
        return self.head(x.transpose(1, 2).unflatten(2, patches.shape[2:]))


def blend(latents: torch.Tensor, noise: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    sigma = (step.float() / 1000).view(-1, 1, 1, 1, 1)
    noisy = (1 - sigma) * latents + sigma * noise
    return noisy, sigma


def main() -> None:
    torch.manual_seed(0)
    device = xm.xla_device()
    model = VideoTransformer().to(torch.bfloat16).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    latents = torch.randn(2, 4, 3, 8, 8).to(torch.bfloat16).to(device)
    for step in range(4):
        noise = torch.randn(2, 4, 3, 8, 8).to(torch.bfloat16).to(device)
        noisy, sigma = blend(latents, noise, torch.tensor([200 * step + 100, 200 * step + 200], device=device))
        if "--cast" in sys.argv:
            noisy = noisy.to(latents.dtype)
        level = sigma.to(latents.dtype).view(-1, 1, 1)
        with torch.autocast("xla", dtype=torch.bfloat16, enabled="--autocast" in sys.argv):
            velocity = model(noisy, level)
        loss = F.mse_loss(velocity.float(), (noise - latents).float())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()

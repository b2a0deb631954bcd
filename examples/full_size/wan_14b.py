"""A training step of Wan 2.2 A14B (one of its two experts of noise levels): 40 layers over 81 frames of 480 x 832.

`truecast explain --fake examples/full_size/wan_14b.py` records it without weights and without memory.
"""

import torch
import torch.nn.functional as F
from diffusers import WanTransformer3DModel

FRAMES, HEIGHT, WIDTH, WORDS = 21, 60, 104, 512  # of latents: 81 frames over 4, 480 x 832 pixels over 8


def main() -> None:
    model = WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=40,
        attention_head_dim=128,
        in_channels=16,
        out_channels=16,
        text_dim=4096,
        freq_dim=256,
        ffn_dim=13824,
        num_layers=40,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        eps=1e-6,
        rope_max_seq_len=1024,
    ).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    latents = torch.randn(1, 16, FRAMES, HEIGHT, WIDTH, dtype=torch.bfloat16)
    noise = torch.randn_like(latents)
    words = torch.randn(1, WORDS, 4096, dtype=torch.bfloat16)
    sigma = torch.rand(1)
    noisy = ((1 - sigma) * latents.float() + sigma * noise.float()).to(latents.dtype)
    predicted = model(noisy, timestep=1000 * sigma, encoder_hidden_states=words, return_dict=False)[0]
    F.mse_loss(predicted.float(), (noise - latents).float()).backward()
    optimizer.step()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e9:.1f} billion parameters")


if __name__ == "__main__":
    main()

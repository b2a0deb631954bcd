"""A training step of Mixtral 8x22B: 56 layers of 8 experts, two of which each token passes through.

`truecast explain --fake examples/full_size/mixtral_8x22b.py` records it without weights and without memory.
"""

import torch
from transformers import MixtralConfig, MixtralForCausalLM

CONFIG = MixtralConfig(
    vocab_size=32000,
    hidden_size=6144,
    intermediate_size=16384,
    num_hidden_layers=56,
    num_attention_heads=48,
    num_key_value_heads=8,
    num_local_experts=8,
    num_experts_per_tok=2,
    max_position_embeddings=65536,
    rms_norm_eps=1e-5,
    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    tie_word_embeddings=False,
    use_cache=False,
)


def main() -> None:
    torch.set_default_dtype(torch.bfloat16)
    model = MixtralForCausalLM(CONFIG)
    torch.set_default_dtype(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    ids = torch.randint(0, CONFIG.vocab_size, (1, 4096))
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e9:.1f} billion parameters")


if __name__ == "__main__":
    main()

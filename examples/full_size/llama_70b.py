"""A training step of Llama 3.1 70B: 80 layers, 8 key-value heads, a vocabulary of 128,256 words.

`truecast explain --fake examples/full_size/llama_70b.py` records it without weights and without memory. With the number
of a layer (`... llama_70b.py 40`) a float32 gate scales that layer's output, and every layer after it refuses what it
gets: one error, with the gate as its origin.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = LlamaConfig(
    vocab_size=128256,
    hidden_size=8192,
    intermediate_size=28672,
    num_hidden_layers=80,
    num_attention_heads=64,
    num_key_value_heads=8,
    max_position_embeddings=131072,
    rms_norm_eps=1e-5,
    rope_parameters={
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    tie_word_embeddings=False,
    use_cache=False,
)


def scale(model: LlamaForCausalLM, layer: int) -> None:
    """Multiplies the output of a layer by a gate whose dtype nobody gave."""
    gate = torch.ones(CONFIG.hidden_size)
    model.model.layers[layer].register_forward_hook(lambda module, args, hidden: hidden * gate)


def main() -> None:
    torch.set_default_dtype(torch.bfloat16)
    model = LlamaForCausalLM(CONFIG)
    torch.set_default_dtype(torch.float32)
    if len(sys.argv) > 1:
        scale(model, int(sys.argv[1]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    ids = torch.randint(0, CONFIG.vocab_size, (1, 4096))
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e9:.1f} billion parameters")


if __name__ == "__main__":
    main()

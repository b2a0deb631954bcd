"""What `truecast compare` costs: time and memory on a Llama of 8 layers, and on a deeper and longer one.

    python bench/drift.py                 8 layers, d = 512, 256 tokens
    python bench/drift.py --layers 32 --tokens 1024

Memory is the process's peak, torch and jax included; "all values" is what all values of the four runs take together.
"""

from __future__ import annotations

import argparse
import resource
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import truecast as tc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--a", default="torch_xla-2.9")
    parser.add_argument("--b", default="neuron")
    chosen = parser.parse_args()
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=chosen.width,
            intermediate_size=chosen.width * 43 // 16,
            num_hidden_layers=chosen.layers,
            num_attention_heads=8,
            num_key_value_heads=8,
            vocab_size=2048,
            use_cache=False,
        )
    ).bfloat16()
    tokens = torch.randint(0, 2048, (1, chosen.tokens))

    @torch.no_grad()
    def forward(tokens: torch.Tensor) -> torch.Tensor:
        return model(input_ids=tokens).logits

    before = _peak()
    started = time.perf_counter()
    drift = tc.compare(forward, tokens, a=chosen.a, b=chosen.b)
    seconds = time.perf_counter() - started
    elements = sum(v.size for n in tc.capture(forward, tokens).nodes for v in n.outputs if v is not None)
    print(
        f"{chosen.layers} layers, d = {chosen.width}, {chosen.tokens} tokens, {chosen.a} and {chosen.b}: "
        f"{seconds:.1f} s, peak {_peak():.2f} GB ({before:.2f} before), "
        f"all values {elements * (8 + 3 * 2) / 1e9:.2f} GB"
    )
    print(drift.render().split("\n\n")[0])


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    main()

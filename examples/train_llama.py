"""Trains a small Llama 20 steps in bfloat16 under two numerics, beside PyTorch eager, and shows what differs.

Run it with `python examples/train_llama.py`.
"""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import truecast as tc

STEPS = 20
NUMERICS = ("cpu", "tpu")
CONFIG = LlamaConfig(
    vocab_size=256,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    use_cache=False,
)


def make_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(CONFIG).to(torch.bfloat16)


def batches() -> list[torch.Tensor]:
    """Token sequences with something to learn: each token is its predecessor plus a step of the sequence."""
    generator = torch.Generator().manual_seed(1)
    start = torch.randint(0, 256, (STEPS, 8, 1), generator=generator)
    step = torch.randint(1, 4, (STEPS, 8, 1), generator=generator)
    return list((start + step * torch.arange(32)) % 256)


def train(numerics: str | None) -> list[float]:
    """The loss of each step: under PyTorch eager, or through truecast under `numerics`."""
    torch.compiler.reset()
    model = make_model()
    run = torch.compile(model, backend="truecast", options={"numerics": numerics}) if numerics else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for ids in batches():
        optimizer.zero_grad()
        loss = run(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    parameters = sum(p.numel() for p in make_model().parameters())
    print(f"A Llama of {parameters:,} parameters, {STEPS} steps of AdamW in bfloat16\n")
    curves = {"eager": train(None), **{name: train(name) for name in NUMERICS}}
    print("loss   " + "".join(f"{name:>10}" for name in curves))
    for step in range(STEPS):
        print(f"{step + 1:4}   " + "".join(f"{curve[step]:10.4f}" for curve in curves.values()))

    graph = tc.capture(make_model(), input_ids=batches()[0], labels=batches()[0])
    plans = [tc.plan(graph, name) for name in NUMERICS]
    print(f"\nWhere the plans for {' and '.join(NUMERICS)} differ (forward):\n")
    print(plans[0].diff(plans[1]))


if __name__ == "__main__":
    main()

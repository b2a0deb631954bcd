"""Times a training step of a small Llama in several engines, each in a process of its own, and prints one table.

    python bench/llama_step.py [--dtype float32 --dtype bfloat16] [--engine eager ...] [--steps 5]

Forward, backward and AdamW of 21 M parameters on 4 x 256 tokens. first: the first step, compilation included,
with an empty cache; again: the first step of the next process, which finds the compiled programs on disk.

torch_xla and torchax take part if they have an environment of their own in `.peers` (they need another torch):

    python3.11 -m venv .peers && .peers/bin/pip install torch==2.9.0 torch_xla==2.9.0 torchax jax flax optax numpy
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ENGINES = ("eager", "inductor", "truecast", "truecast-step", "torch_xla", "torchax")
PEERS = ("torch_xla", "torchax")
PEERS_PYTHON = Path(__file__).parents[1] / ".peers" / "bin" / "python"
ABOUT = {
    "eager": "PyTorch eager",
    "inductor": "torch.compile, inductor",
    "truecast": "torch.compile, truecast; eager AdamW",
    "truecast-step": "tc.lower of the whole step",
    "torch_xla": "torch_xla, torch_xla.sync each step",
    "torchax": "torchax, jitted step, optax AdamW",
}
BATCH, TOKENS, VOCABULARY = 4, 256, 8192
WIDTH, LAYERS, HEADS, HIDDEN = 512, 4, 8, 1408


def build(dtype: str) -> Callable[..., object]:
    """The model, in the dtype; calling it with token ids gives the loss."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            wide = x.float()
            return self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

        def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
            def heads(y: torch.Tensor) -> torch.Tensor:
                return y.view(BATCH, TOKENS, HEADS, -1).transpose(1, 2)

            def rotate(y: torch.Tensor) -> torch.Tensor:
                first, second = y.chunk(2, -1)
                return y * cosine + torch.cat((-second, first), -1) * sine

            query, key, value = rotate(heads(self.query(x))), rotate(heads(self.key(x))), heads(self.value(x))
            scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
            causal = torch.full((TOKENS, TOKENS), -1e9, dtype=x.dtype, device=x.device).triu(1)
            weights = torch.softmax((scores + causal).float(), -1).to(x.dtype)
            return self.out((weights @ value).transpose(1, 2).reshape(BATCH, TOKENS, WIDTH))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before_attention, self.before_mlp, self.attention = Norm(), Norm(), Attention()
            self.gate, self.up = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
            self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

        def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
            x = x + self.attention(self.before_attention(x), cosine, sine)
            y = self.before_mlp(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(VOCABULARY, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm, self.head = Norm(), nn.Linear(WIDTH, VOCABULARY, bias=False)
            size = WIDTH // HEADS
            angles = torch.outer(torch.arange(TOKENS), 10000 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
            self.register_buffer("cosine", angles.cos())
            self.register_buffer("sine", angles.sin())

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x, self.cosine, self.sine)
            logits = self.head(self.norm(x)).float()
            return functional.cross_entropy(logits.view(-1, VOCABULARY), tokens.view(-1))

    torch.manual_seed(0)
    return Llama().to(getattr(torch, dtype))


def prepare(engine: str, dtype: str) -> Callable[[], float]:
    """A function that does one training step and returns its loss."""
    import torch

    model = build(dtype)
    tokens = torch.randint(0, VOCABULARY, (BATCH, TOKENS))
    if engine == "torchax":
        return prepare_torchax(model, tokens)
    if engine == "torch_xla":
        import torch_xla

        model, tokens = model.to(torch_xla.device()), tokens.to(torch_xla.device())  # type: ignore[attr-defined]
    fused = engine == "truecast-step"  # its step count stays a tensor
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False, fused=fused)  # type: ignore[attr-defined]
    # The optimizer's moments must exist before they can be a lowered program's state: a step that changes nothing,
    # in every engine, so that their losses agree.
    with torch.no_grad():
        for parameter in model.parameters():  # type: ignore[attr-defined]
            parameter.grad = torch.zeros_like(parameter)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    for group in optimizer.param_groups:
        group["lr"] = 1e-3
    optimizer.zero_grad()
    loss_of = model
    if engine in ("inductor", "truecast"):
        loss_of = torch.compile(model, backend=engine)

    def step(ids: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(ids)
        loss.backward()  # type: ignore[attr-defined]
        optimizer.step()
        return loss.detach()  # type: ignore[attr-defined]

    if engine == "torch_xla":

        def synced() -> float:
            loss = step(tokens)
            torch_xla.sync(wait=True)
            return loss.item()

        return synced
    if engine != "truecast-step":
        return lambda: step(tokens).item()

    import truecast as tc

    compiled: list[Callable[..., torch.Tensor]] = []

    def whole() -> float:
        if not compiled:
            compiled.append(tc.lower(step, tokens).compile())
        return compiled[0](tokens).item()

    return whole


def prepare_torchax(model: object, tokens: object) -> Callable[[], float]:
    """The step that torchax recommends: functional, jitted as a whole, its state donated."""
    import optax
    import torch
    import torchax
    import torchax.interop
    from torchax.train import make_train_step

    torchax.enable_globally()
    model, tokens = model.to("jax"), tokens.to("jax")  # type: ignore[attr-defined]
    weights, buffers = dict(model.named_parameters()), dict(model.named_buffers())  # type: ignore[attr-defined]
    optimizer = optax.adamw(1e-3, weight_decay=1e-2)

    def forward(weights: object, buffers: object, ids: object) -> object:
        return torch.func.functional_call(model, {**weights, **buffers}, (ids,))  # type: ignore[dict-item,arg-type]

    made = make_train_step(forward, lambda loss, _: loss, optimizer)
    jitted = torchax.interop.jax_jit(made, kwargs_for_jax_jit={"donate_argnums": (0, 2)})
    state = [weights, torchax.interop.call_jax(optimizer.init, weights)]

    def step() -> float:
        loss, *state[:] = jitted(state[0], buffers, state[1], tokens, tokens)
        return float(loss.jax())

    return step


def child(engine: str, dtype: str, steps: int) -> None:
    """Runs one engine in this process and prints its times as JSON."""
    step = prepare(engine, dtype)
    if engine.startswith("truecast"):
        import jax  # its import is not a step's  # noqa: F401
    times, losses = [], []
    for _ in range(steps + 1):
        start = time.perf_counter()
        losses.append(step())
        times.append(time.perf_counter() - start)
    print(json.dumps({"first": times[0], "step": statistics.median(times[1:]), "loss": losses[-1]}))


def measure(engine: str, dtype: str, steps: int, cache: str) -> dict[str, float] | str:
    """The child's times; its last line of complaint if it failed."""
    python = str(PEERS_PYTHON) if engine in PEERS else sys.executable
    command = [python, __file__, "--child", engine, "--dtype", dtype, "--steps", str(steps)]
    environment = {**os.environ, "TRUECAST_CACHE": cache, "PJRT_DEVICE": "CPU"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode:
        return (result.stderr.strip().splitlines() or [f"status {result.returncode}"])[-1]
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", action="append", choices=("float32", "bfloat16"))
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.dtype[0], options.steps)
        return
    print(f"{'engine':40}{'dtype':10}{'step':>9}{'x eager':>9}{'first':>9}{'again':>9}{'loss':>9}")
    for dtype in options.dtype or ("float32", "bfloat16"):
        eager = math.nan
        for engine in options.engine or ENGINES:
            if engine in PEERS and not PEERS_PYTHON.exists():
                print(f"{ABOUT[engine]:40}{dtype:10}not here: see --help")
                continue
            with tempfile.TemporaryDirectory() as cache:
                cold = measure(engine, dtype, options.steps, cache)
                warm = measure(engine, dtype, 1, cache) if engine.startswith("truecast") else None
            if isinstance(cold, str) or isinstance(warm, str):
                print(f"{ABOUT[engine]:40}{dtype:10}{cold if isinstance(cold, str) else warm}")
                continue
            eager = cold["step"] if engine == "eager" else eager
            again = f"{warm['first']:8.2f}s" if warm else ""
            print(
                f"{ABOUT[engine]:40}{dtype:10}{cold['step'] * 1e3:7.0f}ms{cold['step'] / eager:9.2f}"
                f"{cold['first']:8.2f}s{again:>9}{cold['loss']:9.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

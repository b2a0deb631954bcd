"""The `pjrt` device beside eager and torch_xla: tracing, a training step, compiles, memory. One interleaved run.

    python bench/device.py [--rounds 5]

Each engine is a process of its own that waits until it is asked for a step; they take turns, and the best round counts.
On a shared machine only the ratios mean anything, those of processor time the most. The step is that of
bench/llama_step.py: forward, backward and AdamW of 21 M parameters on 4 x 256 tokens, the loss read at its end.
torch_xla takes part if it has its environment (see llama_step.py).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from llama_step import BATCH, PEERS_PYTHON, TOKENS, VOCABULARY, build

ENGINES = ("eager", "pjrt", "torch_xla")
WARM = 4  # steps before any counts: the optimizer's first one, and those that compile
LOOP = 500  # rounds of y = y * 1.0001 + x
PASSES = 5  # of the loop, each time that it is asked for: one takes 10 ms, and the first after a pause is slower


class Child:
    """An engine in a process of its own, which answers each line with a line of JSON."""

    def __init__(self, engine: str, dtype: str, cache: str) -> None:
        python = str(PEERS_PYTHON) if engine == "torch_xla" else sys.executable
        self._process = subprocess.Popen(
            [python, __file__, "--child", engine, "--dtype", dtype],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TRUECAST_CACHE": cache, "PJRT_DEVICE": "CPU"},
        )
        self.ask("ready")

    def ask(self, what: str) -> dict[str, float]:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(what, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def child(engine: str, dtype: str) -> None:
    """Answers on standard output what is asked on standard input."""
    import torch

    device: object = "cpu"
    sync: Callable[[], object] = lambda: None  # noqa: E731
    if engine == "pjrt":
        import truecast as tc

        device, sync = tc.device(), tc.sync
    elif engine == "torch_xla":
        import torch_xla

        device, sync = torch_xla.device(), torch_xla.sync
    model = build(dtype).to(device)  # type: ignore[attr-defined]
    tokens = torch.randint(0, VOCABULARY, (BATCH, TOKENS)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step() -> dict[str, float]:
        started, used = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        traced = time.perf_counter()
        sync()
        value = loss.item()
        ended = time.perf_counter(), time.process_time()
        return {"step": ended[0] - started, "processor": ended[1] - used, "trace": traced - started, "loss": value}

    def loop() -> dict[str, float]:
        taken = []
        for _ in range(PASSES):
            x, y = torch.ones(4, device=device), torch.ones(4, device=device)
            sync()
            started = time.perf_counter()
            for _ in range(LOOP):
                y = y * 1.0001 + x
            taken.append(time.perf_counter() - started)
            sync()
        return {"operation": min(taken) / (2 * LOOP)}

    for _ in range(WARM):
        step()
    loop()
    answers: dict[str, Callable[[], dict[str, float]]] = {"ready": dict, "step": step, "loop": loop}
    for line in sys.stdin:
        print(json.dumps(answers[line.strip()]()), flush=True)


def compare(dtype: str, rounds: int) -> None:
    engines = [e for e in ENGINES if e != "torch_xla" or PEERS_PYTHON.exists()]
    with tempfile.TemporaryDirectory() as cache:
        children = {engine: Child(engine, dtype, cache) for engine in engines}
        found: dict[str, dict[str, list[float]]] = {engine: {} for engine in engines}
        for _ in range(rounds):
            for what in ("loop", "step"):
                for engine, process in children.items():
                    for name, value in process.ask(what).items():
                        found[engine].setdefault(name, []).append(value)
        for process in children.values():
            process.close()
    best = {engine: {name: min(values) for name, values in names.items()} for engine, names in found.items()}
    if dtype == "float32":
        row("traced y = y * 1.0001 + x, an operation", "us", 1e6, {e: b["operation"] for e, b in best.items()})
        row("traced training step", "ms", 1e3, {e: b["trace"] for e, b in best.items() if e != "eager"})
    row(f"training step, {dtype}", "ms", 1e3, {e: b["step"] for e, b in best.items()})
    row(f"its processor time, {dtype}", "ms", 1e3, {e: b["processor"] for e, b in best.items()})


def row(what: str, unit: str, scale: float, seconds: dict[str, float]) -> None:
    ours = seconds["pjrt"]
    times = "   ".join(f"{engine} {taken * scale:.1f} {unit}" for engine, taken in seconds.items())
    ratios = ", ".join(f"{ours / taken:.2f} x {engine}" for engine, taken in seconds.items() if engine != "pjrt")
    print(f"{what:42}{times:56}{ratios}", flush=True)


def resident() -> float:
    """Megabytes of this process's memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def schedule_and_memory() -> None:
    """Programs of 100 steps under a schedule, memory over 500."""
    import torch
    from torch import nn

    import truecast as tc

    device = tc.device()
    model = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 500)
    batch = torch.randn(32, 256, device=device)
    tc.sync()
    before = tc.metrics().programs
    memory = {}
    for step in range(500):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        schedule.step()
        tc.sync(wait=True)
        memory[step] = resident()
        if step == 99:
            print(f"100 AdamW steps under a cosine schedule   {tc.metrics().programs - before} programs")
    print(f"500 steps   memory after the last is {memory[499] / memory[20]:.3f} x that after step 20")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--dtype", action="append", choices=("float32", "bfloat16"))
    options = parser.parse_args()
    if options.child:
        child(options.child, options.dtype[0])
        return
    for dtype in options.dtype or ("float32", "bfloat16"):
        compare(dtype, options.rounds)
    schedule_and_memory()


if __name__ == "__main__":
    main()

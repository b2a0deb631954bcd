"""The `pjrt` device beside eager: tracing, compiles under a schedule, memory over many steps. One interleaved run.

    python bench/device.py

Times are the best of many short rounds, device and eager in turn: on a shared machine only the ratios count.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn

import truecast as tc


def loop(device: torch.device | str, count: int) -> torch.Tensor:
    x, y = torch.ones(4, device=device), torch.ones(4, device=device)
    for _ in range(count):
        y = y * 1.0001 + x
    return y


def best(work: Callable[[], object], rounds: int) -> float:
    found = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        kept = work()
        found = min(found, time.perf_counter() - started)
        tc.sync(wait=True)
        del kept
    return found


def resident() -> float:
    """Megabytes of this process's memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def main() -> None:
    device = tc.device()
    count = 500
    loop(device, count)
    tc.sync()
    rounds = [(best(lambda: loop(device, count), 3), best(lambda: loop("cpu", count), 3)) for _ in range(5)]
    traced, eager = (min(times) / (2 * count) * 1e6 for times in zip(*rounds, strict=True))
    print(f"y = y * 1.0001 + x   traced in {traced:5.1f} us an operation, {traced / eager:.1f} x eager's run")

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


if __name__ == "__main__":
    main()

"""Memory of a training loop: flat, its buffers donated, kept between programs instead of fetched anew."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import truecast as tc
from tests.device.beside import DEVICE
from truecast.capture.device import tape
from truecast.capture.device.state import state
from truecast.runtime import executable, pjrt_seam

LOOP = """
import resource, sys, torch, truecast as tc
from torch import nn

device = tc.device()
torch.manual_seed(0)
width, steps = 512, int(sys.argv[1])
model = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
model = model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
batch = torch.randn(64, width, device=device)

memory, faults = [], []
for step in range(steps):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    schedule.step()
    tc.sync(wait=True)
    with open("/proc/self/statm") as file:
        memory.append(int(file.read().split()[1]))
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
early = min(20, steps // 2)
print(memory[-1] / memory[early], sorted(faults)[steps // 2], tc.metrics().programs)
"""


def loop(steps, **environment):
    """Memory at the end over that of an early step; the page faults of a step; programs."""
    command = [sys.executable, "-c", LOOP, str(steps)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=True)
    return [float(word) for word in ran.stdout.split()]


def test_memory_is_flat_and_used_again():
    growth, faults, _ = loop(60)
    assert growth < 1.02
    assert faults < 100  # the gradients and the working memory, fetched anew, are thousands of pages


@pytest.mark.slow
def test_memory_is_flat_over_500_steps():
    growth, _, programs = loop(500)
    assert growth < 1.02
    assert programs <= 5  # the model, its batch; the first step, the others, the others with numbers as inputs


@pytest.mark.slow
def test_memory_may_be_given_back():
    _, faults, _ = loop(12, TRUECAST_MEMORY="release")
    assert faults > 500


def test_a_step_needs_little_more_than_what_it_keeps():
    """What XLA says that the program of a step takes: arguments and results, those that share memory once, and its
    working memory. Parameters, gradients and both moments are kept; beside them eager keeps each layer's input and
    what it is before the activation for the backward."""
    width, rows = 256, 64
    model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(width, width), nn.GELU())]).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = torch.randn(rows, width, device=DEVICE)
    for _ in range(3):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        tc.sync()
    step = list(state.tape._programs.values())[-1][-1]
    assert step.lifted  # the bias corrections change
    taken = pjrt_seam.memory(step.executable.loaded)
    parameters = sum(p.nbytes for p in model.parameters())
    assert taken.shared >= 3 * parameters  # the parameters and both moments are updated in their own memory
    assert taken.total <= 1.3 * (4 * parameters + 9 * batch.nbytes)


def test_programs_that_were_not_used_for_long_give_their_code_back(monkeypatch):
    """Else a process that makes many dies: LLVM gets no memory for code once Linux's maps of it are used up."""

    def run(extents):
        for extent in extents:
            x = torch.arange(float(extent), device=DEVICE)
            assert (x * 2 + 1).sum().item() == extent * extent
        gc.collect()
        with open("/proc/self/maps") as file:
            return sum(1 for _ in file)

    monkeypatch.setattr(tape, "_MOST_PROGRAMS", 4)
    monkeypatch.setattr(executable, "_IN_MEMORY", 4)
    before = run(range(300, 305))
    assert run(range(305, 330)) < before + 15
    compiled = tc.metrics().compiles
    run([300])
    assert tc.metrics().compiles - compiled <= 1
    assert len(state.tape._programs) == 4

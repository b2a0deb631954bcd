"""torch.compile of functions of device tensors, without a graph break, beside eager on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import truecast as tc
from tests.device.beside import DEVICE, equal

CLOSE = 1e-5


def train(model, batch, compiled):
    """Three steps: the losses and the parameters after them."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = compiled(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *(p.detach() for p in model.parameters())]


def loss_of(model, x):
    y = functional.gelu(model(x))
    y[0].mul_(2)
    return y.square().mean() + y.t()[0].sum() * 1e-3


@pytest.mark.parametrize("backend", ["truecast", "inductor", "eager", "aot_eager"])
def test_training_equals_eager(backend):
    torch._dynamo.reset()
    torch.manual_seed(0)
    here = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    there = copy.deepcopy(here).to(DEVICE)
    batch = torch.randn(5, 4)
    compiled = torch.compile(loss_of, backend=backend, fullgraph=True)
    before = tc.metrics()
    found = train(there, batch.to(DEVICE), compiled)
    tc.sync()
    assert tc.metrics().downloads == before.downloads
    for got, expected in zip(found, train(here, batch, loss_of), strict=True):
        equal(got, expected, CLOSE)


def test_the_policy_of_the_options_holds_inside_and_only_there():
    torch._dynamo.reset()
    x = torch.full((1,), 1.0, device=DEVICE, dtype=torch.bfloat16)
    small = torch.full((1,), 2.0**-9, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    wide, narrow = (tc.Numerics.preset("cpu").with_rule(compute="opmath", rounding=r) for r in ("region", "op"))

    def blended(x, small):
        return x + small - x

    for inside, outside in ((wide, narrow), (narrow, wide)):
        torch._dynamo.reset()
        compiled = torch.compile(blended, backend="truecast", fullgraph=True, options={"numerics": inside})
        with tc.numerics(outside):
            small.grad = None
            out = compiled(x, small)
            out.backward()
            plain = blended(x, small)
        expected = {wide: 2.0**-9, narrow: 0.0}
        assert (out.item(), plain.item(), small.grad.item()) == (expected[inside], expected[outside], 1.0)
        assert out.device == DEVICE


def test_another_shape_and_a_module():
    torch._dynamo.reset()
    model = nn.Linear(4, 3).to(DEVICE)
    compiled = torch.compile(model, backend="truecast", fullgraph=True)
    for rows in (2, 5):
        x = torch.randn(rows, 4, device=DEVICE)
        equal(compiled(x).detach(), model(x).detach().cpu(), CLOSE)


@pytest.mark.parametrize("mode", ["default", "max-autotune", "reduce-overhead"])
def test_the_default_backend_leaves_the_device_its_operations(mode):
    torch._dynamo.reset()
    here = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    there = copy.deepcopy(here).to(DEVICE)
    x = torch.randn(5, 4, requires_grad=True)
    y = x.detach().to(DEVICE).requires_grad_()
    gradients = []
    for model, given in ((torch.compile(there, mode=mode, fullgraph=True, dynamic=True), y), (there, y), (here, x)):
        torch.manual_seed(7)
        given.grad = None
        model.train(model is not here)(given).square().sum().backward()
        gradients.append(given.grad)
    equal(gradients[0], gradients[1].cpu(), 0)
    with torch.no_grad():
        equal(torch.compile(there.eval(), mode=mode)(y), here(x), CLOSE)
    assert torch.compile(lambda: torch.arange(3, device=DEVICE) * 2, mode=mode)().tolist() == [0, 2, 4]


def test_graphs_without_the_device_are_inductors(monkeypatch):
    from torch._inductor import compile_fx

    seen = []
    monkeypatch.setattr(compile_fx, "compile_fx", lambda module, inputs, **named: seen.append(inputs) or module)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * 2)
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert compiled(torch.ones(2, device=DEVICE)).tolist() == [2.0, 2.0]
    assert len(seen) == 1

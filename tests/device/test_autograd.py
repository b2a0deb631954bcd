"""Gradients, transforms, optimizers and modules on the device, beside the CPU's."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from torch import nn
from torch.func import grad, hessian, jvp, vmap
from torch.nn import functional
from torch.optim import swa_utils
from torch.utils.checkpoint import checkpoint

import truecast as tc
from tests.device.beside import DEVICE, beside, equal

CLOSE = 1e-5  # sums of a few float32 products, in another order


def test_backward_with_hooks_and_writes_to_views():
    def program(x, w):
        x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
        seen = []
        w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        y = (x @ w).relu()
        y.register_hook(lambda g: g * 2)
        z = y.clone()
        z[1:].mul_(3)
        z.sum().backward()
        return x.grad, w.grad, seen[0]

    beside(program, (3, 4), (4, 5), tolerance=CLOSE)


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.exp() * 2


def test_custom_function_and_double_backward():
    def program(x):
        x = x.clone().requires_grad_()
        _Doubled.apply(x).sum().backward()
        y = x.detach().clone().requires_grad_()
        (first,) = torch.autograd.grad((y**3).sum(), y, create_graph=True)
        (first**2).sum().backward()
        return x.grad, y.grad, first

    beside(program, (3, 4), tolerance=CLOSE)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(reentrant):
    def program(x):
        x = x.clone().requires_grad_()
        checkpoint(lambda t: torch.sin(t) * t, x, use_reentrant=reentrant).sum().backward()
        return x.grad

    beside(program, (3, 4), tolerance=CLOSE)


def test_checkpoint_draws_the_same_dropout_again():
    x = torch.ones(1000, device=DEVICE, requires_grad=True)
    y = checkpoint(lambda t: functional.dropout(t, 0.5) * t, x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal((y != 0).cpu(), (x.grad != 0).cpu())
    assert 300 < (y != 0).sum().item() < 700


def test_transforms():
    def loss(t):
        return (t.sin() * t).sum()

    beside(lambda x: (grad(loss)(x), vmap(loss)(x), vmap(grad(loss))(x)), (3, 4), tolerance=CLOSE)
    beside(lambda x, v: jvp(lambda t: t.sin() * t, (x,), (v,)), (3, 4), (3, 4), tolerance=CLOSE)
    beside(lambda x: hessian(lambda t: (t.sin() * t).sum())(x), (3,), tolerance=CLOSE)


OPTIMIZERS = (
    *("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"),
    *("LBFGS", "Adafactor", "Muon"),
)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    def program(w, x):
        p = w.clone().requires_grad_()
        # More iterations of LBFGS amplify the last bit of a sum without bound.
        options = {"max_iter": 3} if name == "LBFGS" else {}
        optimizer = getattr(torch.optim, name)([p], lr=0.1, **options)

        def closure():
            optimizer.zero_grad()
            loss = ((x @ p) ** 2).mean()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        return p

    generator = torch.Generator().manual_seed(0)
    w, x = (torch.randn(s, generator=generator, dtype=torch.float64) for s in ((4, 3), (5, 4)))
    beside(program, w, x, tolerance=1e-9)


def test_clipping_and_moving_averages():
    def program(x, w):
        layer = nn.Linear(4, 3, bias=False)
        layer.to(x.device)
        with torch.no_grad():
            layer.weight.copy_(w)
        layer(x).pow(2).sum().backward()
        norm = nn.utils.clip_grad_norm_(layer.parameters(), 0.1)
        average = copy.deepcopy(layer)
        with torch.no_grad():
            average.weight.mul_(0.9).add_(layer.weight, alpha=0.1).lerp_(layer.weight, 0.5)
        nn.utils.clip_grad_value_(layer.parameters(), 0.01)
        return norm, average.weight, layer.weight.grad

    beside(program, (5, 4), (3, 4), tolerance=CLOSE)


def test_averaged_models():
    def program(x, w):
        layer = nn.Linear(4, 3, bias=False).to(x.device)
        average = swa_utils.AveragedModel(layer, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        with torch.no_grad():
            layer.weight.copy_(w)
        for _ in range(3):
            optimizer.zero_grad()
            layer(x).square().sum().backward()
            optimizer.step()
            average.update_parameters(layer)
        return average.module.weight, layer.weight

    beside(program, (5, 4), (3, 4), tolerance=CLOSE)


def test_training_in_several_threads():
    def train(number, device, found):
        generator = torch.Generator().manual_seed(number)
        w, x = (torch.randn(s, generator=generator).to(device) for s in ((4, 3), (5, 4)))
        w.requires_grad_()
        optimizer = torch.optim.AdamW([w], lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            (x @ w).square().mean().backward()
            optimizer.step()
        found[number] = w.detach().cpu()

    there, here = {}, {}
    threads = [threading.Thread(target=train, args=(i, DEVICE, there)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(3):
        train(i, "cpu", here)
        torch.testing.assert_close(there[i], here[i], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.RNN], ids=lambda m: m.__name__)
def test_recurrent_layers(make):
    torch.manual_seed(0)
    here = make(4, 5, batch_first=True)
    there = copy.deepcopy(here).to(DEVICE)
    x = torch.randn(2, 3, 4)
    a, b = here(x)[0], there(x.to(DEVICE))[0]
    a.pow(2).sum().backward()
    b.pow(2).sum().backward()
    torch.testing.assert_close(b.detach().cpu(), a.detach(), rtol=CLOSE, atol=CLOSE)
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        equal(q.grad, p.grad, 1e-4)


def test_packed_sequences():
    torch.manual_seed(0)
    model, rows, lengths = nn.LSTM(4, 3, batch_first=True), torch.randn(3, 5, 4), torch.tensor([5, 3, 2])
    results = []
    for device in ("cpu", DEVICE):
        x = rows.to(device).clone().requires_grad_()
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        assert packed.batch_sizes.device.type == "cpu"
        out, _ = nn.utils.rnn.pad_packed_sequence(copy.deepcopy(model).to(device)(packed)[0], batch_first=True)
        out.square().sum().backward()
        results += [out.detach().cpu(), x.grad.cpu()]
    for here, there in zip(results[:2], results[2:], strict=True):
        torch.testing.assert_close(there, here)


def test_autocast_follows_the_list():
    layer, x = nn.Linear(4, 3).to(DEVICE), torch.randn(2, 4, device=DEVICE)
    with torch.autocast("pjrt"):
        out = layer(x)
        assert out.dtype is torch.bfloat16
        assert functional.mse_loss(out, torch.zeros_like(out)).dtype is torch.float32
    with torch.autocast("pjrt", dtype=torch.float16):
        assert layer(x).dtype is torch.float16
    assert layer(x).dtype is torch.float32
    out.sum().backward()
    assert layer.weight.grad.dtype is torch.float32


def test_inference_mode():
    with torch.inference_mode():
        assert nn.Linear(4, 3).to(DEVICE)(torch.ones(2, 4, device=DEVICE)).reshape(1, 6).add_(1).sum().item() != 0


def test_a_schedule_costs_one_compile_more_and_memory_is_donated():
    model = nn.Linear(8, 8).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    x = torch.randn(4, 8, device=DEVICE)
    tc.sync()
    before = tc.metrics().programs
    for _ in range(12):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        schedule.step()
        tc.sync()
    assert tc.metrics().programs - before <= 3  # without states, with them, with numbers as inputs (law N6)
    assert "Python numbers changed and are inputs from now on: " in tc.why_recompiled(1)[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.AdamW(parameters, lr=0.01, fused=True),
        lambda parameters: torch.optim.Adam(parameters, lr=0.01, amsgrad=True, fused=True),
        lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9, nesterov=True, fused=True),
        lambda parameters: torch.optim.Adagrad(parameters, lr=0.01, fused=True),
    ],
    ids=["AdamW", "Adam", "SGD", "Adagrad"],
)
def test_fused_optimizers_stay_on_the_device_under_a_schedule(make):
    here = nn.Linear(4, 3)
    there = copy.deepcopy(here).to(DEVICE)
    before = tc.metrics().copy()
    steps = []
    for model in (here, there):
        optimizer = make(model.parameters())
        steps.append((model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)))
    for number in range(6):
        for model, optimizer, schedule in steps:
            optimizer.zero_grad()
            x = torch.full((2, 4), 1.0 + number, device=next(model.parameters()).device)
            model(x).square().sum().backward()
            optimizer.step()
            schedule.step()
        tc.sync()
    now = tc.metrics()
    assert (now.downloads, now.fallbacks) == (before.downloads, before.fallbacks)
    assert now.programs - before.programs <= 3  # without states, with them, with the rate as an input (law N6)
    for a, b in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(b.detach().cpu(), a.detach())

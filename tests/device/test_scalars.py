"""Law N6 on the device: Python numbers that change from call to call become inputs of one program, which computes what
a program with the number in it computes. Those that mean something else, or that PyTorch refuses, are part of it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import truecast as tc

DEVICE = tc.device()
# The third is just below the middle of two bfloat16s, and float32 would make it the middle.
NUMBERS = (0.3, 0.7, 1 - 2**-9 - 2**-40, 0.123, 0.0625)


def operands(dtype, device):
    torch.manual_seed(3)
    shapes = {
        "x": (4, 3),
        "a": (4, 5),
        "b": (5, 3),
        "vector": (5,),
        "row": (3,),
        "stack": (2, 4, 5),
        "other": (2, 5, 3),
    }
    made = {name: torch.randn(shape).to(dtype).to(device) for name, shape in shapes.items()}
    return made | {"mask": (torch.arange(3) % 2 == 0).to(device), "mean": made["row"].clone()}


def computed(number, x, a, b, vector, row, stack, other, mask, mean):
    """By name, everything that takes a number and has one right answer."""
    variance = torch.ones_like(row)
    functional.batch_norm(x, mean, variance, training=True, momentum=number)
    shifted, factors = x + 0.5, {"alpha": number, "beta": 3 * number}
    return {
        "masked_fill": x.masked_fill(mask, number),
        "full": torch.full((3,), number, dtype=x.dtype, device=x.device),
        "full_like": torch.full_like(x, number),
        "new_full": x.new_full((3,), number),
        "fill": torch.empty_like(x).fill_(number),
        "batch_norm's mean": mean,
        "batch_norm's variance": variance,
        "huber_loss": functional.huber_loss(x, shifted, delta=number),
        "smooth_l1_loss": functional.smooth_l1_loss(x, shifted, beta=number),
        "addmm": torch.addmm(x, a, b, **factors),
        "addmv": torch.addmv(x[:, 0], a, vector, **factors),
        "addr": torch.addr(a, x[:, 0], vector, **factors),
        "addbmm": torch.addbmm(x, stack, other, **factors),
        "baddbmm": torch.baddbmm(x.expand(2, 4, 3), stack, other, **factors),
    }


def drawn(number, x):
    """By name, everything that draws with a number."""
    torch.manual_seed(5)
    ones = torch.ones(5, 4, 3, dtype=x.dtype, device=x.device).requires_grad_()
    kept = functional.dropout(ones, number)
    (gradient,) = torch.autograd.grad(kept.sum(), ones)
    return {
        "normal": torch.empty_like(x).normal_(number, 2 * number),
        "uniform": torch.empty_like(x).uniform_(-number, 3 * number),
        "uniform from 0": torch.empty_like(x).uniform_(0, number),
        "bernoulli": torch.empty_like(x).bernoulli_(number),
        "dropout": kept.detach(),
        "dropout's gradient": gradient,
        "dropout2d": functional.dropout2d(ones[None], number).detach(),
    }


def on_device(number, dtype, apart=0):
    """Results by name and how many programs they took; apart: the size of one more, which makes it another program."""
    given = operands(dtype, DEVICE)
    tc.sync()
    before = tc.metrics().programs
    more = torch.zeros(apart, device=DEVICE) if apart else None
    results = computed(number, **given) | drawn(number, given["x"])
    tc.sync()
    programs = tc.metrics().programs - before
    del more
    return {name: result.cpu() for name, result in results.items()}, programs


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)], ids=str
)
def test_n6_a_changing_number_compiles_once_more_and_changes_nothing(dtype):
    found = [on_device(number, dtype) for number in NUMBERS]
    assert [programs for _, programs in found] == [1, 1, 0, 0, 0]
    number, (results, _) = NUMBERS[2], found[2]
    alone, programs = on_device(number, dtype, apart=1000)
    assert programs == 1, "a program with the number in it"
    assert [name for name in alone if not torch.equal(alone[name], results[name])] == []
    near = 1e-6 if dtype is torch.float32 else 4 * torch.finfo(dtype).eps
    for name, expected in computed(number, **operands(dtype, "cpu")).items():
        torch.testing.assert_close(
            results[name], expected, rtol=near, atol=near, msg=lambda m, name=name: f"{name}: {m}"
        )


def programs_of(run, numbers):
    """The results, and how many programs each number took."""
    results, counts = [], []
    tc.sync()
    for number in numbers:
        before = tc.metrics().programs
        result = run(number)
        tc.sync(wait=True)
        counts.append(tc.metrics().programs - before)
        results.append(result.cpu())
    return results, counts


def empty():
    return torch.empty(3, device=DEVICE)


@pytest.mark.parametrize(
    ("run", "refused"),
    [
        (lambda number: empty().normal_(0, number), {-1.0: "normal expects std >= 0.0, but found std -1"}),
        (
            lambda number: empty().uniform_(0.1, number),
            {0.0: "uniform_ expects to return a [from, to) range, but found from=0.1 > to=0"},
        ),
        (lambda number: empty().bernoulli_(number), {1.5: "bernoulli_ expects p to be in [0, 1], but got p=1.5"}),
        (
            lambda number: torch.native_dropout(empty(), number, True)[0],
            {2.0: "bernoulli_ expects p to be in [0, 1], but got p=-1"},
        ),
        (
            lambda number: functional.huber_loss(empty(), empty(), delta=number),
            {0.0: "huber_loss does not support non-positive values for delta."},
        ),
    ],
    ids=["normal", "uniform", "bernoulli", "native_dropout", "huber_loss"],
)
def test_n6_a_number_that_pytorch_refuses_is_refused_after_others_were_taken(run, refused):
    _, counts = programs_of(run, (0.2, 0.3, 0.4))
    assert counts == [1, 1, 0]
    for number, words in refused.items():
        with pytest.raises(RuntimeError) as caught:
            run(number)
        assert str(caught.value) == words


def test_n6_a_beta_of_zero_ignores_the_addend_after_others_were_taken():
    nan = torch.full((2, 2), float("nan"), device=DEVICE)
    ones = torch.ones(2, 2, device=DEVICE)
    tc.sync()
    results, counts = programs_of(lambda beta: torch.addmm(nan, ones, ones, beta=beta), (0.5, 0.25, 0, 0.125, 0))
    assert counts == [1, 1, 1, 0, 0]
    assert [bool(result.isnan().all()) for result in results] == [True, True, False, True, False]
    assert results[4].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert tc.why_recompiled(1)[0].endswith(": beta is 0 where the nearest program has a number that may change")


def test_n6_a_dropout_of_zero_or_one_is_itself_after_others_were_taken():
    ones = torch.ones(64, device=DEVICE)
    tc.sync()
    results, _ = programs_of(lambda p: functional.dropout(ones, p), (0.25, 0.5, 0.0, 1.0))
    assert [set(result.tolist()) for result in results[1:]] == [{0.0, 2.0}, {1.0}, {0.0}]


def test_n6_masked_fill_takes_infinities_and_whole_numbers():
    x, whole = torch.zeros(3, device=DEVICE), torch.zeros(3, dtype=torch.int64, device=DEVICE)
    mask = torch.ones(3, dtype=torch.bool, device=DEVICE)
    tc.sync()
    results, counts = programs_of(lambda value: x.masked_fill(mask, value), (1.0, -float("inf"), 4.0, float("nan")))
    assert counts == [1, 1, 0, 0]
    assert [repr(result[0].item()) for result in results] == ["1.0", "-inf", "4.0", "nan"]
    results, counts = programs_of(lambda value: whole.masked_fill(mask, value), (1, 2, 2**60 + 1))
    assert counts == [1, 1, 0]
    assert results[2].tolist() == [2**60 + 1] * 3


def test_n6_batch_norm_that_averages_all_batches_compiles_once_more():
    torch.manual_seed(0)
    plain = nn.BatchNorm1d(4, momentum=None)
    ours, batches, counts = nn.BatchNorm1d(4, momentum=None).to(DEVICE), torch.randn(6, 8, 4), []
    for batch in batches:
        x = batch.to(DEVICE)
        before = tc.metrics().programs
        plain(batch), ours(x)
        tc.sync()
        counts.append(tc.metrics().programs - before)
    assert counts[2:] == [0, 0, 0, 0]
    torch.testing.assert_close(ours.running_var.cpu(), plain.running_var)


def test_why_recompiled_names_the_arguments_that_differ():
    x = torch.zeros(3, 3, device=DEVICE)
    tc.sync()
    for dim, index in ((0, 1), (0, 2), (1, 0)):
        x.select(dim, index).sin().cpu()
    shown = tc.why_recompiled(2)
    assert "aten.select.int at test_scalars.py:" in shown[0].replace("tests/device/", "")
    assert shown[0].endswith(": index is 2 where the nearest program has 1")
    assert "operation 1, aten.select.int at " in shown[1]
    assert shown[1].endswith(": dim is 1 where the nearest program has 0; index is 0 where the nearest program has 1")
    x.sum(1).cpu()
    x.sum(1, keepdim=True).cpu()
    assert tc.why_recompiled(1)[0].endswith(": keepdim is True where the nearest program has False")
    x.reshape(9).roll((1, 2), (0, 0)).cpu()
    x.reshape(9).roll((1, 3), (0, 0)).cpu()
    assert tc.why_recompiled(1)[0].endswith(": shifts is [1, 3] where the nearest program has [1, 2]")

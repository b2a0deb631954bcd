"""Questions about contents that the program alone decides are answered while recording; any other is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import truecast as tc
from truecast.capture.recorder import trace
from truecast.errors import CaptureError

X = torch.arange(16.0).reshape(4, 4) + 1


def lower_triangle(x: torch.Tensor) -> torch.Tensor:
    return x[torch.ones(4, 4).tril().bool()]


def between(x: torch.Tensor) -> torch.Tensor:
    mask = torch.tensor([True, False, True, True])
    return x[:, mask].sum(0) + x[mask, 1]


def loop(x: torch.Tensor) -> torch.Tensor:
    for step in torch.arange(3):
        if step % 2 == 0:
            x = x * int(step + 2)
    return x


def in_place(x: torch.Tensor) -> torch.Tensor:
    counts = torch.zeros(4, dtype=torch.int64)
    counts[1] += 3
    counts[2] = 1
    return x.repeat_interleave(counts, 0)


PROGRAMS: list[Callable[[torch.Tensor], Any]] = [
    lower_triangle,
    between,
    loop,
    in_place,
    lambda x: torch.masked_select(x, torch.tensor([[True], [False], [True], [False]])),
    lambda x: torch.combinations(x[0], 3, with_replacement=True),
    lambda x: torch.cov(x),
    lambda x: torch.corrcoef(x),
    lambda x: x[torch.full((), 2).item()] + torch.arange(4)[-1].item(),
    lambda x: torch.nonzero(torch.eye(3)) + x[0, 0].long(),
    lambda x: x if torch.equal(torch.ones(2), torch.ones(2)) else -x,
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_what_the_program_decides_is_answered(number: int) -> None:
    program = PROGRAMS[number]
    got, want = tc.lower(program, X, numerics="cpu").compile()(X), program(X)
    assert got.dtype is want.dtype
    torch.testing.assert_close(got, want)


def test_a_selection_has_its_gradient() -> None:
    def gradient(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(lower_triangle(x).square().sum() + torch.cov(x).sum(), x)[0]

    x = X.clone().requires_grad_()
    torch.testing.assert_close(tc.lower(gradient, x, numerics="cpu").compile()(x), gradient(x))


OUTSIDE = torch.tensor([1, 0, 2, 1])


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x[x > 3],
        lambda x: x * x.sum().item(),
        lambda x: x.repeat_interleave(OUTSIDE, 0),  # the program may write to it before the next call
        lambda x: x[torch.rand(4) > 0.5],
        lambda x: x[torch.full((4,), 0.5).bernoulli().bool()],
        lambda x: x[torch.dropout(torch.ones(4), 0.5, True).bool()],
        lambda x: x[torch.empty(4).bool()],
        lambda x: x[torch.zeros(4).add(x[0]).bool()],
    ],
)
def test_what_an_input_or_chance_decides_is_refused(program: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(CaptureError, match="asks for the contents of a tensor"):
        trace(program, (X,))


@pytest.mark.parametrize("as_tensors", (False, True))
@pytest.mark.parametrize("flat", (False, True))
def test_ctc_needs_no_contents(as_tensors: bool, flat: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(8, 2, 5, generator=generator, requires_grad=True)
    targets = torch.tensor([1, 3, 2, 4, 1]) if flat else torch.tensor([[1, 3, 2], [4, 1, 0]])
    lengths: Any = ((8, 6), (3, 2))

    def gradient(scores: torch.Tensor, targets: torch.Tensor, *lengths: Any) -> Any:
        loss = F.ctc_loss(scores.log_softmax(2), targets, *lengths)
        return loss, torch.autograd.grad(loss, scores)[0]

    if as_tensors:
        lengths = tuple(map(torch.tensor, lengths))
    got = tc.lower(gradient, scores, targets, *lengths, numerics="cpu").compile()(scores, targets, *lengths)
    for ours, eager in zip(got, gradient(scores, targets, *lengths), strict=True):
        torch.testing.assert_close(ours, eager)

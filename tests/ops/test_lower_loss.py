"""Losses against eager, forward and backward: every reduction. float32: 8 ulps of a sum of 60; bfloat16: 2 ulps, one
rounding from float32 on each side; eager rounds a mean's sum to bfloat16 before dividing, another ulp."""

import math
from typing import Any

import pytest
import torch

from tests.twin import Call, call, compare_all

DTYPES = ((torch.float32, 8), (torch.bfloat16, 3))


def draw(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def both(name: str, x: torch.Tensor, *args: Any, reduction: int, tail: tuple[Any, ...] = ()) -> list[Call]:
    loss = getattr(torch.ops.aten, name)(x, *args, reduction, *tail)
    grad = draw(x.dtype, *loss.shape, seed=3)
    forward = call(f"aten.{name}.default", x, *args, reduction, *tail)
    return [forward, call(f"aten.{name}_backward.default", grad, x, *args, reduction, *tail)]


@pytest.mark.parametrize(("dtype", "ulps"), DTYPES)
def test_elementwise_losses(dtype: torch.dtype, ulps: float) -> None:
    x, y = draw(dtype, 6, 10), draw(dtype, 6, 10, seed=1)
    p, w = draw(dtype, 6, 10).sigmoid(), draw(dtype, 6, 10, seed=2).abs()
    probability = draw(dtype, 6, 10, seed=1).sigmoid()
    signs = torch.where(y > 0, 1.0, -1.0).to(dtype)
    calls: list[Call] = []
    for reduction in (0, 1, 2):
        calls += both("mse_loss", x, y, reduction=reduction)
        calls += both("huber_loss", x, y, reduction=reduction, tail=(0.7,))
        calls += both("smooth_l1_loss", x, y, reduction=reduction, tail=(0.5,))
        calls += both("soft_margin_loss", x, signs, reduction=reduction)
        calls += both("binary_cross_entropy", p, probability, w, reduction=reduction)
        calls += both("binary_cross_entropy", p, probability, None, reduction=reduction)
        logits = "aten.binary_cross_entropy_with_logits.default"
        calls.append(call(logits, x, probability, None, None, reduction))
        calls.append(call(logits, x, probability, w, w[0], reduction))
    compare_all(calls, ulps=ulps)


def test_binary_cross_entropy_at_certainty() -> None:
    p = torch.tensor([0.0, 1.0, 0.0, 1.0])
    compare_all(both("binary_cross_entropy", p, torch.tensor([0.0, 1.0, 1.0, 0.0]), None, reduction=0), ulps=2)


@pytest.mark.parametrize(("dtype", "ulps"), DTYPES)
def test_nll_loss(dtype: torch.dtype, ulps: float) -> None:
    x, image, weight = draw(dtype, 6, 5), draw(dtype, 2, 5, 3, 4), draw(dtype, 5).abs()
    target = torch.tensor([0, 4, 2, -100, 3, 2])
    pixels = torch.randint(0, 5, (2, 3, 4), generator=torch.Generator().manual_seed(0))
    calls: list[Call] = []
    for reduction in (0, 1, 2):
        for name, scores, classes, w, ignored in (
            ("nll_loss", x, target, None, -100),
            ("nll_loss", x, target, weight, -100),
            ("nll_loss", x[1], target[1], weight, 2),
            ("nll_loss2d", image, pixels, weight, 3),
        ):
            args = (scores, classes, w, reduction, ignored)
            calls.append(call(f"aten.{name}_forward.default", *args))
            loss, total = getattr(torch.ops.aten, f"{name}_forward")(*args)
            calls.append(call(f"aten.{name}_backward.default", draw(dtype, *loss.shape), *args, total))
    compare_all(calls, ulps=ulps)


def test_nll_loss_of_nothing_is_nan() -> None:
    x, ignored = draw(torch.float32, 3, 4), torch.full((3,), -100)
    compare_all([call("aten.nll_loss_forward.default", x, ignored, None, reduction, -100) for reduction in (0, 1, 2)])
    x[1, 1] = -math.inf
    compare_all([call("aten.nll_loss_forward.default", x, torch.tensor([0, 1, 2]), torch.zeros(4), 2, -100)])


def test_margin_losses() -> None:
    x, weight, target = draw(torch.float32, 6, 5), draw(torch.float32, 5).abs(), torch.tensor([0, 4, 2, 1, 3, 2])
    labels = torch.tensor([[0, 3, -1, 2, 1], [4, -1, 0, 0, 0], [-1, 0, 1, 2, 3], [1, 2, 3, 4, 0]])
    calls: list[Call] = []
    for reduction in (0, 1, 2):
        for args in ((x, target, 1, 1, None), (x, target, 2, 0.5, weight), (x[0], target[0], 1, 1, None)):
            calls += both("multi_margin_loss", *args, reduction=reduction)
        name = "multilabel_margin_loss"
        for row, its_labels in ((x[:4], labels), (x[0], labels[0]), (x[0, 0], labels[1, 2])):
            loss, is_target = torch.ops.aten.multilabel_margin_loss_forward(row, its_labels, reduction)
            calls.append(call(f"aten.{name}_forward.default", row, its_labels, reduction))
            grad = draw(torch.float32, *loss.shape)
            calls.append(call(f"aten.{name}_backward.default", grad, row, its_labels, reduction, is_target))
    compare_all(calls, ulps=8)


def test_ctc_loss() -> None:
    """Bounds: 32 ulps, six steps of a sum of exponentials. Beyond an input's length eager leaves log alpha unset."""
    probabilities = draw(torch.float32, 6, 2, 5).log_softmax(-1)
    padded, joined = torch.tensor([[1, 2, 2], [3, 1, 0]]), torch.tensor([1, 2, 2, 3, 1])
    ctc, grad = torch.ops.aten._ctc_loss, torch.tensor([1.0, 0.5])
    calls: list[Call] = []
    for targets, inputs, lengths in (
        (padded, [6, 5], [3, 2]),
        (joined, [6, 5], [3, 2]),
        (padded, [6, 6], [1, 0]),
        (padded, torch.tensor([6, 5]), torch.tensor([3, 2])),
    ):
        overload = "Tensor" if isinstance(inputs, torch.Tensor) else "default"
        args = (probabilities, targets, inputs, lengths)
        loss, log_alpha = getattr(ctc, overload)(*args)
        calls.append(call(f"aten._ctc_loss.{overload}", *args, outputs=(0,)))
        if targets is not joined:
            calls.append(call(f"aten._ctc_loss_backward.{overload}", grad, *args, loss, log_alpha, 0))
    args = (probabilities[:3], padded, [3, 3], [3, 2])  # three steps can't spell "1 2 2": an infinite loss
    loss, log_alpha = ctc(*args, 0, True)
    calls.append(call("aten._ctc_loss.default", *args, 0, True, outputs=(0,)))
    calls.append(call("aten._ctc_loss_backward.default", grad, *args, loss, log_alpha, 0, True))
    compare_all(calls, ulps=32)

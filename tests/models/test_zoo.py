"""Real models, a training step each: loss and every parameter gradient through truecast, beside PyTorch eager."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from tests.models.zoo import ZOO, Loss

# float32: root mean square error of a gradient as a fraction of its size; sums are taken in another order, and an error
# made early is carried through the layers. 1e-5 of the largest gradient is noise on both sides (a key bias's is zero).
FLOAT32_BOUND, FLOAT32_NOISE = 2e-3, 1e-5
# bfloat16: the distance to a float32 run, as a multiple of eager's own. Both round every intermediate once; the
# roundings fall on other elements, so that one tensor may be somewhat worse and the next one better. 2e-2 of the
# largest gradient: one rounding (2^-8) in each of half a dozen layers.
BFLOAT16_RATIO, BFLOAT16_NOISE = 1.5, 2e-2


def train_step(module: nn.Module, loss: Loss, compiled: bool) -> tuple[float, dict[str, torch.Tensor]]:
    torch.manual_seed(3)
    module.zero_grad()
    torch.compiler.reset()
    run = torch.compile(module, backend="truecast", options={"numerics": "eager"}) if compiled else module
    value = loss(run)
    value.backward()
    return float(value), {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}


def rms(tensor: torch.Tensor) -> float:
    return float(tensor.double().square().mean().sqrt())


@pytest.mark.parametrize("name", ZOO)
def test_a_float32_training_step_equals_eager(name: str) -> None:
    module, loss = build(name, torch.float32)
    want, want_gradients = train_step(module, loss, compiled=False)
    got, got_gradients = train_step(module, loss, compiled=True)
    assert got == pytest.approx(want, rel=1e-4)
    same_keys_and_dtypes(got_gradients, want_gradients)
    scale = max(map(rms, want_gradients.values()))
    for path, expected in want_gradients.items():
        error = rms(got_gradients[path] - expected)
        assert error <= FLOAT32_BOUND * rms(expected) + FLOAT32_NOISE * scale, (
            f"{path}: {error:.3g} of {rms(expected):.3g}"
        )


@pytest.mark.parametrize("name", ZOO)
def test_a_bfloat16_training_step_is_as_good_as_eager(name: str) -> None:
    module, loss = build(name, torch.bfloat16)
    want, want_gradients = train_step(module, loss, compiled=False)
    got, got_gradients = train_step(module, loss, compiled=True)
    exact, exact_gradients = train_step(module.float(), loss, compiled=False)
    assert abs(got - exact) <= BFLOAT16_RATIO * abs(want - exact) + 2**-8 * abs(exact)
    same_keys_and_dtypes(got_gradients, want_gradients)
    scale = max(map(rms, exact_gradients.values()))
    for path, expected in exact_gradients.items():
        error, eager_error = rms(got_gradients[path] - expected), rms(want_gradients[path] - expected)
        bound = BFLOAT16_RATIO * eager_error + BFLOAT16_NOISE * scale
        assert error <= bound, f"{path}: error {error:.3g}, eager's {eager_error:.3g}, size {rms(expected):.3g}"


def build(name: str, dtype: torch.dtype) -> tuple[nn.Module, Loss]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        module, loss = ZOO[name]()
        return module.to(dtype).train(), loss


def same_keys_and_dtypes(got: dict[str, torch.Tensor], want: dict[str, torch.Tensor]) -> None:
    assert {n: g.dtype for n, g in got.items()} == {n: g.dtype for n, g in want.items()}

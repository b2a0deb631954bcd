"""Fused optimizer steps and loss scaling against eager. 8 ulps in float32: a handful of operations, with the bias
corrections that eager takes in float64; bfloat16 2 ulps, computed in float32 and rounded once on both sides."""

from typing import Any

import pytest
import torch

from tests.twin import Call, call, compare_all

DTYPES = ((torch.float32, 8), (torch.bfloat16, 2))


def lists(dtype: torch.dtype, count: int) -> list[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, 4), (5,))
    return [
        [torch.randn(s, dtype=torch.float64, generator=generator).abs().to(dtype) for s in shapes] for _ in range(count)
    ]


def steps(value: float) -> list[torch.Tensor]:
    return [torch.tensor(value), torch.tensor(value)]


@pytest.mark.parametrize(("dtype", "ulps"), DTYPES)
def test_fused_steps(dtype: torch.dtype, ulps: float) -> None:
    parameters, grads, means, squares, largest = lists(dtype, 5)
    adam: dict[str, Any] = {"lr": 0.5, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.1, "eps": 1e-8}
    adam |= {"amsgrad": False, "maximize": False}
    tensors = (parameters, grads, means, squares)
    calls: list[Call] = []
    for name in ("_fused_adam", "_fused_adamw"):
        calls.append(call(f"aten.{name}.default", *tensors, [], steps(1.0), **adam))
        calls.append(call(f"aten.{name}.default", *tensors, [], steps(7.0), **{**adam, "maximize": True}))
        calls.append(call(f"aten.{name}.default", *tensors, largest, steps(3.0), **{**adam, "amsgrad": True}))
        rate = {**adam, "lr": torch.tensor(0.5)}
        calls.append(call(f"aten.{name}.tensor_lr", *tensors, [], steps(2.0), **rate))
    sgd: dict[str, Any] = {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "dampening": 0.2, "nesterov": False}
    sgd |= {"maximize": False, "is_first_step": False}
    for change in ({}, {"is_first_step": True}, {"nesterov": True, "dampening": 0.0}):
        calls.append(call("aten._fused_sgd.default", parameters, grads, means, **{**sgd, **change}))
    calls.append(call("aten._fused_sgd.default", parameters, grads, [], **{**sgd, "momentum": 0.0, "maximize": True}))
    adagrad: dict[str, Any] = {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1, "eps": 1e-10, "maximize": False}
    calls.append(call("aten._fused_adagrad.default", parameters, grads, squares, steps(5.0), **adagrad))
    compare_all(calls, ulps=ulps)


def test_a_step_with_an_infinite_gradient_is_skipped() -> None:
    parameters, grads, means = lists(torch.float32, 3)
    sgd: dict[str, Any] = {"weight_decay": 0.0, "momentum": 0.9, "lr": 0.1, "dampening": 0.0, "nesterov": False}
    sgd |= {"maximize": False, "is_first_step": False, "grad_scale": torch.tensor(8.0)}
    calls = [
        call("aten._fused_sgd.default", parameters, grads, means, **sgd, found_inf=torch.tensor(found))
        for found in (0.0, 1.0)
    ]
    compare_all(calls, ulps=8)


def test_loss_scaling() -> None:
    (grads,) = lists(torch.float32, 1)
    broken = [grads[0], torch.full((5,), float("inf"))]
    found, inverse = torch.zeros(1), torch.tensor([0.125])
    unscale, update = "aten._amp_foreach_non_finite_check_and_unscale.default", "aten._amp_update_scale.default"
    calls = [call(unscale, grads, found, inverse), call(unscale, broken, found, inverse)]
    scale = torch.tensor([1024.0])
    for tracker, overflowed in ((0, 0.0), (9, 0.0), (9, 1.0)):
        state = (torch.tensor([tracker], dtype=torch.int32), torch.tensor([overflowed]))
        calls.append(call(update, scale, *state, 2.0, 0.5, 10))
    compare_all(calls, ulps=1)

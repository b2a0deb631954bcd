"""Normalizations against eager, forward and backward.

Bounds: float32 16 ulps of the mean magnitude (means of tens of elements in another order, then a division);
bfloat16 2 ulps (float32 inside, rounded once on both sides); its statistics, which eager keeps in float32, 16.
"""

import pytest
import torch

from tests.twin import Call, call, check, compare_all, run
from truecast.dtypes import float64
from truecast.graph import Graph, Input, Node, Output, Value

DTYPES = ((torch.float32, 16), (torch.bfloat16, 2), (torch.float16, 2))
TRAINED = ((torch.float32, 16), (torch.bfloat16, 2))


def draw(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


@pytest.mark.parametrize(("dtype", "ulps"), DTYPES)
def test_softmax(dtype: torch.dtype, ulps: float) -> None:
    x, grad = draw(dtype, 3, 17, 4) * 4, draw(dtype, 3, 17, 4, seed=1)
    masked = x.clone()
    masked[0, :, 1] = float("-inf")
    masked[1, 3:, 2] = float("-inf")
    scalar, empty = draw(dtype), draw(dtype, 0, 4)
    calls: list[Call] = []
    for name in ("_softmax", "_log_softmax"):
        for dim in (0, 1, -1):
            calls.append(call(f"aten.{name}.default", x, dim, False))
            y = getattr(torch.ops.aten, name)(x / 4, dim, False)  # where y is near 1, the gradient cancels
            calls.append(call(f"aten.{name}_backward_data.default", grad, y, dim, dtype))
        calls += [call(f"aten.{name}.default", masked, 1, False), call(f"aten.{name}.default", scalar, 0, False)]
        calls.append(call(f"aten.{name}.default", empty, 0, False))
    calls += [call("aten._safe_softmax.default", masked, 1), call("aten._safe_softmax.default", x, -1)]
    compare_all(calls, ulps=ulps)


@pytest.mark.parametrize(("dtype", "ulps"), DTYPES)
def test_layer_norm(dtype: torch.dtype, ulps: float) -> None:
    x, grad, w, b = draw(dtype, 4, 3, 24), draw(dtype, 4, 3, 24, seed=1), draw(dtype, 24), draw(dtype, 24, seed=1)
    w2, b2 = draw(dtype, 3, 24), draw(dtype, 3, 24, seed=1)
    calls = []
    for shape, weight, bias in (([24], w, b), ([3, 24], w2, b2), ([24], None, None)):
        calls.append(call("aten.native_layer_norm.default", x, shape, weight, bias, 1e-5))
        _, mean, rstd = torch.native_layer_norm(x, shape, weight, bias, 1e-5)
        mask = [True, weight is not None, bias is not None]
        args = (grad, x, shape, mean, rstd, weight, bias, mask)
        calls.append(call("aten.native_layer_norm_backward.default", *args))
    compare_all(calls, ulps=ulps)


def test_layer_norm_of_bfloat16_with_float32_weights_keeps_float32_statistics() -> None:
    x, w, b = draw(torch.bfloat16, 4, 24), draw(torch.float32, 24), draw(torch.float32, 24, seed=1)
    compare_all(
        [
            call("aten.native_layer_norm.default", x, [24], w, b, 1e-5, ulps=2, outputs=(0,)),
            call("aten.native_layer_norm.default", x, [24], w, b, 1e-5, ulps=16, outputs=(1, 2)),
        ]
    )


@pytest.mark.parametrize(("dtype", "ulps"), TRAINED)
def test_group_norm(dtype: torch.dtype, ulps: float) -> None:
    x, grad, w, b = draw(dtype, 2, 6, 4, 5), draw(dtype, 2, 6, 4, 5, seed=1), draw(dtype, 6), draw(dtype, 6, seed=1)
    calls = []
    for weight, bias in ((w, b), (None, None)):
        calls.append(call("aten.native_group_norm.default", x, weight, bias, 2, 6, 20, 3, 1e-5))
        _, mean, rstd = torch.native_group_norm(x, weight, bias, 2, 6, 20, 3, 1e-5)
        mask = [True, weight is not None, bias is not None]
        args = (grad, x, mean, rstd, weight, 2, 6, 20, 3, mask)
        calls.append(call("aten.native_group_norm_backward.default", *args))
    compare_all(calls, ulps=ulps)


@pytest.mark.parametrize(("dtype", "ulps"), TRAINED)
def test_batch_norm(dtype: torch.dtype, ulps: float) -> None:
    x, grad = draw(dtype, 5, 3, 4, 2), draw(dtype, 5, 3, 4, 2, seed=1)
    w, b, mean, var = draw(dtype, 3), draw(dtype, 3, seed=1), draw(dtype, 3, seed=2), draw(dtype, 3, seed=3).abs()
    aten = torch.ops.aten
    calls = [
        call("aten.native_batch_norm.default", x, w, b, mean, var, False, 0.1, 1e-5),
        call("aten.native_batch_norm.default", x, w, b, None, None, True, 0.1, 1e-5),
        call("aten._native_batch_norm_legit.no_stats", x, None, None, True, 0.1, 1e-5),
        call("aten._native_batch_norm_legit_no_training.default", x, w, b, mean, var, 0.1, 1e-5),
        call("aten._native_batch_norm_legit_functional.default", x, w, b, mean, var, True, 0.1, 1e-5),
        call("aten._native_batch_norm_legit_functional.default", x, w, b, mean, var, False, 0.1, 1e-5),
        call("aten._batch_norm_no_update.default", x, w, b, mean, var, 0.1, 1e-5),
        call("aten._batch_norm_with_update_functional.default", x, w, b, mean, var, 0.1, 1e-5),
    ]
    _, save_mean, save_invstd = aten.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)
    empty = torch.empty(0, dtype=dtype)
    for weight, mask in ((w, [True, True, True]), (None, [True, False, False])):
        saved = (weight, mean, var, save_mean, save_invstd)
        calls.append(call("aten.native_batch_norm_backward.default", grad, x, *saved, True, 1e-5, mask))
        evaluated = (weight, mean, var, empty, empty)
        calls.append(call("aten.native_batch_norm_backward.default", grad, x, *evaluated, False, 1e-5, mask))
    reserve = torch.empty(0, dtype=torch.uint8)
    args = (grad, x, w, mean, var, save_mean, save_invstd, True, 1e-5, [True, True, True], reserve)
    calls.append(call("aten.batch_norm_backward.default", *args))
    compare_all(calls, ulps=ulps)


def test_batch_norm_of_bfloat16_with_float32_parameters() -> None:
    x = draw(torch.bfloat16, 5, 3, 4, 2)
    w, b, mean, var = (draw(torch.float32, 3, seed=i).abs() for i in range(4))
    args = (x, w, b, mean, var, True, 0.1, 1e-5)
    name = "aten._native_batch_norm_legit_functional.default"
    compare_all([call(name, *args, ulps=2, outputs=(0,)), call(name, *args, ulps=16, outputs=(1, 2, 3, 4))])


@pytest.mark.parametrize(("dtype", "ulps"), TRAINED)
def test_rms_norm(dtype: torch.dtype, ulps: float) -> None:
    x, w = draw(dtype, 4, 3, 24), draw(dtype, 24)
    calls = []
    for weight, eps in ((w, 1e-6), (None, 1e-6), (w, None)):
        calls.append(call("aten._fused_rms_norm.default", x, [24], weight, eps))
    compare_all(calls, ulps=ulps)


def test_rms_norm_backward_is_the_gradient_of_the_forward() -> None:
    # CPU eager has no kernel for it (autograd differentiates the composite), so the twin is autograd.
    x, w = draw(torch.float64, 4, 3, 24).requires_grad_(), draw(torch.float64, 24).requires_grad_()
    grad = draw(torch.float64, 4, 3, 24, seed=1)
    y, rstd = torch.ops.aten._fused_rms_norm(x, [24], w, 1e-6)
    expected = torch.autograd.grad(y, (x, w), grad)
    values = [Value(n, float64, tuple(t.shape)) for n, t in zip("gxrw", (grad, x, rstd, w), strict=True)]
    outputs = (Value("dx", float64, (4, 3, 24)), Value("dw", float64, (24,)))
    g, x_, r, w_ = values
    node = Node("aten._fused_rms_norm_backward.default", (g, x_, (24,), r, w_, (True, True)), (), outputs)
    graph = Graph("call", tuple(map(Input, values)), (node,), tuple(map(Output, outputs))).verify()
    for got, want in zip(run(graph, [grad, x, rstd, w]), expected, strict=True):
        check(node.op, got, want, ulps=16)


def test_weight_norm() -> None:
    v, grad = draw(torch.float32, 4, 5), draw(torch.float32, 4, 5, seed=1)
    calls = []
    for g, dim in ((draw(torch.float32, 4, 1), 0), (draw(torch.float32, 1, 5), 1)):
        calls.append(call("aten._weight_norm_interface.default", v, g, dim))
        _, norms = torch._weight_norm_interface(v, g, dim)
        calls.append(call("aten._weight_norm_interface_backward.default", grad, v, g, norms, dim))
    compare_all(calls, ulps=16)

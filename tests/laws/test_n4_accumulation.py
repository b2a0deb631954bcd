"""Law N4: softmax, norms, losses, matmul and convolution accumulate in `Decision.accumulate`."""

import jax
import numpy as np
import pytest
import torch

from tests.twin import EAGER, run, single_node_graph
from truecast.lowering.emit import function_of
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import resolve

NARROW = EAGER.with_rule(compute="same", accumulate="bfloat16")
NARROW_SUMS = EAGER.with_rule(accumulate="bfloat16")
ROWS = torch.randn(256, 256, generator=torch.Generator().manual_seed(0)).bfloat16()

CONVOLUTION = (
    ROWS[:64].reshape(2, 32, 16, 16),
    ROWS[:36].reshape(32, 32, 3, 3),
    *(None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
)


def median_relative_error(op: str, numerics: Numerics, *args: object) -> float:
    graph, tensors, _ = single_node_graph(op, *args)
    got = run(graph, tensors, numerics)[0].astype(np.float64)
    wide = [a.double() if isinstance(a, torch.Tensor) else a for a in args]
    want = getattr(torch.ops.aten, op.split(".")[1])(*wide)
    want = (want[0] if isinstance(want, tuple) else want).numpy()
    return float(np.median(np.abs(got - want) / np.abs(want)))


def test_n4_softmax_in_bfloat16_sums_is_visibly_worse_than_in_float32_sums() -> None:
    """Medians over 256 x 256 that were measured on other backends: about 4.4e-3 where sums are bfloat16, 1.35e-3 (the
    rounding of the result alone) where they are float32 and the arithmetic is opmath."""
    assert median_relative_error("aten._softmax.default", EAGER, ROWS, 1, False) < 1.5e-3
    assert 3e-3 < median_relative_error("aten._softmax.default", NARROW, ROWS, 1, False) < 1e-2


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("aten._softmax.default", (ROWS, 1, False)),
        ("aten.native_layer_norm.default", (ROWS, [256], None, None, 1e-5)),
        ("aten.mse_loss.default", (ROWS, ROWS.flip(0), 1)),
        ("aten.avg_pool2d.default", (ROWS.abs().reshape(1, 1, 256, 256), [16, 16])),
    ],
)
def test_n4_a_float32_accumulator_is_nearer_than_a_bfloat16_one(op: str, args: tuple[object, ...]) -> None:
    assert median_relative_error(op, EAGER, *args) < 0.8 * median_relative_error(op, NARROW_SUMS, *args)


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("aten.mm.default", (ROWS, ROWS)),
        ("aten.addmm.default", (ROWS[0], ROWS, ROWS)),
        ("aten.convolution.default", CONVOLUTION),
    ],
)
def test_n4_products_of_bfloat16_are_summed_in_float32_without_widening_the_operands(
    op: str, args: tuple[object, ...]
) -> None:
    """The fast path on XLA:CPU too: a bfloat16 dot with a bfloat16 result is 5 to 15 times slower."""
    graph, tensors, _ = single_node_graph(op, *args)
    plan = resolve(graph, EAGER)
    assert (plan.decisions[0].compute.name, plan.decisions[0].accumulate.name) == ("bfloat16", "float32")
    with jax.enable_x64(True):
        arrays = [jax.ShapeDtypeStruct(tuple(t.shape), "bfloat16") for t in tensors]
        text = jax.jit(function_of(plan)).lower(*arrays).as_text()
    (product,) = [line for line in text.splitlines() if "dot_general" in line or "stablehlo.convolution" in line]
    operands, result = product.rsplit(" : ", 1)[1].split(" -> ")
    assert operands.count("xbf16>") == 2
    assert "xf32>" in result

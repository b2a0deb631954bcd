"""Law N5: a contraction names its operands and its accumulator, and computes what the name says on every target."""

import numpy as np
import pytest
import torch

from tests.twin import EAGER, run, single_node_graph
from truecast.errors import NumericsError, TargetError
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import resolve

# Significant bits of each operand that take part in the products, from the name.
BITS = {"bf16_bf16_f32": 8, "tf32_tf32_f32": 11, "bf16_bf16_f32_x3": 16, "bf16_bf16_f32_x6": 22, "f32_f32_f32": 22}


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def with_algorithm(name: str) -> Numerics:
    return EAGER.with_rule(kind="contraction|convolution", algorithm=name)


def median_error(op: str, numerics: Numerics, *args: object) -> float:
    graph, tensors, _ = single_node_graph(op, *args)
    (got,) = run(graph, tensors, numerics)
    wide = [a.double() if isinstance(a, torch.Tensor) else a for a in args]
    want = getattr(torch.ops.aten, op.split(".")[1])(*wide).numpy()
    return float(np.median(np.abs(got - want) / np.abs(want)))


CONVOLUTION = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)


@pytest.mark.parametrize("name", BITS)
def test_n5_products_have_the_bits_that_the_name_says(name: str) -> None:
    """The error of a dot of 64 products of b-bit operands is about 2^-b, within a factor of 8 on either side: above
    means too few bits, below means that the rounding was left out (as XLA:CPU does with a dot attribute)."""
    bound = 2.0 ** -BITS[name]
    for error in (
        median_error("aten.mm.default", with_algorithm(name), draw(32, 64), draw(64, 32, seed=1)),
        median_error(
            "aten.convolution.default", with_algorithm(name), draw(2, 7, 9, 9), draw(8, 7, 3, 3, seed=1), *CONVOLUTION
        ),
    ):
        assert error < 8 * bound
        assert error > bound / 32 or BITS[name] >= 22


def test_n5_one_bfloat16_pass_is_exactly_the_product_of_rounded_operands() -> None:
    a, b = draw(16, 32), draw(32, 16, seed=1)
    graph, tensors, _ = single_node_graph("aten.mm.default", a, b)
    (got,) = run(graph, tensors, with_algorithm("bf16_bf16_f32"))
    exact = a.bfloat16().double() @ b.bfloat16().double()
    np.testing.assert_allclose(got, exact.numpy(), rtol=0, atol=32 * 2.0**-24 * float(exact.abs().max()))


def test_n5_a_split_operand_keeps_infinities_and_does_not_invent_nan() -> None:
    a = torch.tensor([[float("inf"), 1.0], [1.0, 2.0]])
    graph, tensors, _ = single_node_graph("aten.mm.default", a, torch.ones(2, 2))
    for name in ("bf16_bf16_f32_x3", "bf16_bf16_f32_x6"):
        (got,) = run(graph, tensors, with_algorithm(name))
        np.testing.assert_array_equal(got, [[np.inf, np.inf], [3, 3]])


def test_n5_default_is_one_pass_in_the_operands_own_type() -> None:
    assert median_error("aten.mm.default", EAGER, draw(32, 64), draw(64, 32, seed=1)) < 2.0**-20


def test_n5_a_target_that_cannot_do_it_raises() -> None:
    graph, _, _ = single_node_graph("aten.mm.default", draw(4, 4), draw(4, 4))
    with pytest.raises(TargetError, match="target 'tpu' can't do algorithm 'tf32_tf32_f32'"):
        resolve(graph, Numerics("mine", target="tpu").with_rule(kind="contraction", algorithm="tf32_tf32_f32"))


def test_n5_an_unknown_algorithm_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(NumericsError, match="bf16_bf16_f23"):
        EAGER.with_rule(kind="contraction", algorithm="bf16_bf16_f23")

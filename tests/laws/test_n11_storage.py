"""Law N11: a storage map holds a dtype as another one on the device, loudly, while the program's dtypes stay."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tests.lowered import arithmetic, chain, compiled, stablehlo
from truecast import dtypes, lower
from truecast.api.comparing import FLOAT64
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import resolve

LEGACY = Numerics.preset("legacy-xla-bf16")
DOWNCAST = Numerics.preset("legacy-xla-downcast-bf16")


def product(dtype: dtypes.DType) -> Graph:
    inputs = {name: Value(name, dtype, (8,)) for name in "ab"}
    return chain(("aten.mul.Tensor", ("a", "b")), inputs=inputs, outputs=("v0",))


@pytest.mark.parametrize(
    ("policy", "dtype", "held"),
    (
        (LEGACY, dtypes.float32, "bf16"),
        (LEGACY, dtypes.float64, "bf16"),
        (DOWNCAST, dtypes.float32, "bf16"),
        (DOWNCAST, dtypes.float64, "f32"),
        (Numerics.preset("neuron"), dtypes.float64, "f32"),
        (Numerics.preset("neuron"), dtypes.float32, "f32"),
        (LEGACY, dtypes.float16, "f16"),
    ),
)
def test_n11_the_program_holds_the_mapped_dtype(policy: Numerics, dtype: dtypes.DType, held: str) -> None:
    text = stablehlo(product(dtype), policy)
    assert f"(%arg0: tensor<8x{held}>, %arg1: tensor<8x{held}>) -> (tensor<8x{held}>" in text


def test_n11_under_the_legacy_mode_muls_opmath_is_gone() -> None:
    # Measured with torch_xla 2.9.0 under XLA_USE_BF16=1: the cast to float32 maps to bfloat16 and vanishes.
    assert arithmetic(stablehlo(product(dtypes.float32), LEGACY)) == ["multiply bf16"]
    assert arithmetic(stablehlo(product(dtypes.bfloat16), LEGACY)) == ["multiply bf16"]


def test_n11_the_decision_says_what_the_device_computes_in() -> None:
    (decision,) = resolve(product(dtypes.float32), LEGACY).decisions
    assert decision.compute is dtypes.bfloat16
    assert resolve(product(dtypes.float32), LEGACY).graph.nodes[0].outputs[0].dtype is dtypes.float32


def test_n11_sums_are_held_in_the_mapped_dtype_too() -> None:
    inputs = {name: Value(name, dtypes.float32, (4, 4)) for name in "ab"}
    graph = chain(("aten.mm.default", ("a", "b")), inputs=inputs, outputs=("v0",))
    (decision,) = resolve(graph, LEGACY.with_rule(accumulate="float32")).decisions
    assert (decision.compute, decision.accumulate) == (dtypes.bfloat16, dtypes.bfloat16)


def test_n11_values_are_bfloat16s() -> None:
    a = np.linspace(0.1, 3, 8).astype(dtypes.numpy_dtype(dtypes.bfloat16))
    (got,) = compiled(product(dtypes.float32), LEGACY)(a, a)
    want = (a.astype(np.float32) * a.astype(np.float32)).astype(a.dtype)
    np.testing.assert_array_equal(np.asarray(got), want)


def test_n11_movement_and_casts_stay_within_the_map() -> None:
    x = Value("x", dtypes.bfloat16, (4,))
    y, z = Value("y", dtypes.float32, (4,)), Value("z", dtypes.float32, (4,))
    nodes = (
        Node("aten._to_copy.default", (x,), (("dtype", dtypes.float32),), (y,)),
        Node("aten.flip.default", (y, (0,)), (), (z,)),
    )
    graph = Graph("cast", (Input(x),), nodes, (Output(z),)).verify()
    text = stablehlo(graph, LEGACY)
    assert "f32" not in text and "stablehlo.reverse" in text


@pytest.mark.parametrize(
    ("policy", "words"),
    (
        (LEGACY, "every float32 is HELD AS bfloat16, every float64 is HELD AS bfloat16"),
        (DOWNCAST, "every float32 is HELD AS bfloat16, every float64 is HELD AS float32"),
    ),
)
def test_n11_it_is_loud_in_the_plan(policy: Numerics, words: str) -> None:
    text = resolve(product(dtypes.float32), policy).text(200)
    assert f"  STORAGE    {policy.name}: {words}; .dtype does not say so (law N11); 3 values here\n" in text
    assert "STORAGE" not in resolve(product(dtypes.float32), Numerics.preset("torch_xla-2.9")).text(200)


def test_n11_a_difference_of_storage_is_a_difference_of_plans() -> None:
    graph = product(dtypes.int32)
    base = Numerics.preset("torch_xla-2.9")
    difference = resolve(graph, base).diff(resolve(graph, LEGACY))
    assert difference.differences == () and bool(difference)
    assert "STORAGE    legacy-xla-bf16" in str(difference)


def test_n11_a_map_may_widen_and_then_a_cast_to_bfloat16_rounds_nothing() -> None:
    # The reference of `truecast compare`: everything in float64, whatever the program says.
    x, y = Value("x", dtypes.float32, (4,)), Value("y", dtypes.bfloat16, (4,))
    z = Value("z", dtypes.bfloat16, (4,))
    nodes = (
        Node("aten._to_copy.default", (x,), (("dtype", dtypes.bfloat16),), (y,)),
        Node("aten.mul.Tensor", (y, y), (), (z,)),
    )
    graph = Graph("square", (Input(x),), nodes, (Output(z),)).verify()
    numbers = np.array([1 / 3, 1e-3, 1e30, 5.0])
    with jax.enable_x64(True):
        (got,) = compiled(graph, FLOAT64)(numbers)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(np.asarray(got), numbers * numbers)


def test_n11_a_python_number_that_becomes_an_input_stays_as_it_is() -> None:
    """Law N6: it is rounded once, where it is used, whatever the storage map says of its dtype."""
    number = Value("k0", dtypes.float64, (), scalar=True)
    x = Value("x", dtypes.float32, (8,))
    out = Value("v0", dtypes.float32, (8,))
    node = Node("aten.mul.Tensor", (x, number), (), (out,))
    text = lower(Graph("g", (Input(x), Input(number, "scalar")), (node,), (Output(out),)), numerics=LEGACY).stablehlo
    assert "%arg0: tensor<8xbf16>" in text and "%arg1: tensor<f64>" in text

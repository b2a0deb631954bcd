"""Law N6: a Python scalar is rounded once, to the compute dtype, and a changing one causes no recompile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import truecast as tc
from truecast import dtypes
from truecast.errors import UsageError
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.runtime.compiled import CompiledProgram

OPMATH = tc.Numerics("opmath").with_rule(kind="elementwise", compute="opmath")
NATIVE = tc.Numerics("native").with_rule(kind="elementwise", compute="same")


def scaled(scalar: object, op: str = "aten.mul.Tensor") -> Graph:
    """x op scalar, for a literal or a scalar input."""
    x, out = Value("x", dtypes.bfloat16, (64,)), Value("out", dtypes.bfloat16, (64,))
    inputs = (Input(x), Input(scalar, "scalar", "lr")) if isinstance(scalar, Value) else (Input(x),)
    return Graph("scaled", inputs, (Node(op, (x, scalar), (), (out,)),), (Output(out),)).verify()


X = torch.linspace(-3, 3, 64).bfloat16()
BF16 = dtypes.numpy_dtype(dtypes.bfloat16)


def wide(tensor: torch.Tensor) -> np.ndarray:
    return tensor.double().numpy()


@given(scalar=st.floats(0.001, 1000))
@settings(max_examples=15, deadline=None)
def test_n6_under_opmath_a_scalar_keeps_float32(scalar: float) -> None:
    got = tc.lower(scaled(scalar), numerics=OPMATH).compile()(X)[0]
    exact = wide(X) * np.float64(np.float32(scalar))  # 8 + 24 bits fit a double
    want = exact.astype(np.float32).astype(BF16).astype(np.float64)
    np.testing.assert_array_equal(wide(got), want)
    assert torch.equal(got, X * scalar), "as in PyTorch eager"


def test_n6_computed_in_bfloat16_a_scalar_is_a_bfloat16() -> None:
    scalar = 0.1  # bfloat16(0.1) is 0.10009765625
    got = tc.lower(scaled(scalar), numerics=NATIVE).compile()(X)[0]
    want = (wide(X) * np.float64(np.array(scalar, BF16))).astype(np.float32).astype(BF16).astype(np.float64)
    np.testing.assert_array_equal(wide(got), want)
    assert not torch.equal(got, X * scalar)


def test_n6_a_scalar_is_rounded_once_not_twice() -> None:
    """1 + 2**-8 + 2**-40 lies above the middle of two bfloat16s; float32 would make it the middle, which goes down."""
    scalar = 1 + 2**-8 + 2**-40
    ones = torch.ones(64).bfloat16()
    got = tc.lower(scaled(scalar), numerics=NATIVE).compile()(ones)[0]
    assert got.double().tolist() == [1 + 2**-7] * 64


@pytest.mark.parametrize("numerics", [OPMATH, NATIVE], ids=["opmath", "native"])
def test_n6_a_scalar_input_is_the_same_as_the_literal(numerics: tc.Numerics) -> None:
    compiled = tc.lower(scaled(Value("lr", dtypes.float64, (), scalar=True)), numerics=numerics).compile()
    for scalar in (0.1, 1 + 2**-8 + 2**-40, 3, 1e-30):
        literal = tc.lower(scaled(scalar), numerics=numerics).compile()(X)[0]
        assert torch.equal(compiled(X, scalar)[0], literal)
        assert compiled(X, scalar)[0].dtype is torch.bfloat16, "it promotes as a Python scalar does (law N1)"


def test_n6_a_changing_scalar_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from truecast.runtime import executable

    compiled: CompiledProgram = tc.lower(
        scaled(Value("lr", dtypes.float64, (), scalar=True)), numerics=OPMATH
    ).compile()
    monkeypatch.setattr(executable, "_compile", lambda *_: pytest.fail("compiled again"))
    results = [compiled(X, 10.0**-step)[0] for step in range(5)]
    assert all(torch.equal(r, X * 10.0**-step) for step, r in enumerate(results))


def test_n6_a_scalar_input_takes_no_wider_category() -> None:
    compiled = tc.lower(scaled(Value("n", dtypes.int64, (), scalar=True)), numerics=OPMATH).compile()
    assert torch.equal(compiled(X, 3)[0], X * 3)
    with pytest.raises(UsageError) as caught:
        compiled(X, 2.5)
    assert str(caught.value) == (
        "the compiled program 'scaled' got a wrong tensor for scalar 'lr'\n"
        "  values: expected int64[], got 2.5, which is no tensor\n"
        "  why: a compiled program has fixed dtypes and shapes\n"
        "  help: convert the argument, or lower the program again with arguments like this one"
    )


@pytest.mark.parametrize("accumulate", ["opmath", "same"])
def test_n6_a_multiplier_input_is_rounded_once_as_the_literal_is(accumulate: str) -> None:
    """alpha and beta aren't numeric: the rule itself brings them to the dtype that it computes with."""
    policy = tc.Numerics(accumulate).with_rule(kind="contraction", compute="same", accumulate=accumulate)
    a, b, c = (Value(name, dtypes.bfloat16, (8, 8)) for name in "abc")
    out = Value("out", dtypes.bfloat16, (8, 8))

    def scaled_product(alpha: object, *more: Input) -> Graph:
        node = Node("aten.addmm.default", (a, b, c), (("beta", alpha), ("alpha", alpha)), (out,))
        return Graph("product", (*map(Input, (a, b, c)), *more), (node,), (Output(out),)).verify()

    x = X.reshape(8, 8)
    alpha = Value("alpha", dtypes.float64, (), scalar=True)
    compiled = tc.lower(scaled_product(alpha, Input(alpha, "scalar", "alpha")), numerics=policy).compile()
    for number in (0.1, 1 + 2**-8 + 2**-40):
        literal = tc.lower(scaled_product(number), numerics=policy).compile()(x, x, x)[0]
        assert torch.equal(compiled(x, x, x, number)[0], literal)

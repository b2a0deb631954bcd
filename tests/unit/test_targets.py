"""What targets do with subnormals: what truecast says of XLA:CPU is measured here, and "flush" flushes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.lowered import chain, compiled
from truecast import dtypes
from truecast.graph import Value
from truecast.numerics.numerics import Numerics

SMALLEST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126}


def product(name: str, policy: Numerics, *numbers: float) -> np.ndarray:
    """Each number times one."""
    dtype = dtypes.of(name)
    inputs = {n: Value(n, dtype, (len(numbers),)) for n in "ab"}
    graph = chain(("aten.mul.Tensor", ("a", "b")), inputs=inputs, outputs=("v0",))
    array = np.array(numbers, dtypes.numpy_dtype(dtype))
    (got,) = compiled(graph, policy)(array, np.ones_like(array))
    return np.asarray(got).astype(np.float64)


@pytest.mark.parametrize(("name", "kept"), (("float16", True), ("bfloat16", False), ("float32", False)))
def test_what_xla_on_the_cpu_does_is_what_the_error_says(name: str, kept: bool) -> None:
    (got,) = product(name, Numerics.preset("eager"), SMALLEST_NORMAL[name] / 2)
    assert got == (SMALLEST_NORMAL[name] / 2 if kept else 0)


@pytest.mark.parametrize("name", SMALLEST_NORMAL)
def test_flush_turns_subnormals_into_zeros_of_their_sign(name: str) -> None:
    tiny = SMALLEST_NORMAL[name]
    policy = Numerics.preset("eager").with_settings(subnormals="flush")
    got = product(name, policy, tiny / 2, -tiny / 2, tiny, -tiny, 0.0, -0.0, math.inf, math.nan, 1.5)
    np.testing.assert_array_equal(got, [0, 0, tiny, -tiny, 0, 0, math.inf, math.nan, 1.5])
    assert list(np.signbit(got[:6])) == [False, True, False, True, False, True]

"""Bessel and Airy functions: float32 beside eager; float64 beside SciPy, since eager's J0 is off by 1e-8 there."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import special

from tests.ops.batch import Case, check, merged
from tests.twin import EAGER, run

# Both sides of each change of formula (2, 4, 8), the ends of the domain, and what lies outside.
OUTSIDE = [90, 104, math.inf, -math.inf, math.nan]
POINTS = torch.tensor(
    [*OUTSIDE, -25, -9, -8.1, -7.9, -4.1, -4, -2.2, -1, -1e-3, 0, 1e-6, 0.1, 1.5, 1.9, 2, 2.1, 3.9, 4, 7.9, 8, 8.1, 25],
    dtype=torch.float64,
)
TWINS = {
    "airy_ai": lambda x: special.airy(x)[0],
    "bessel_j0": special.j0,
    "bessel_j1": special.j1,
    "bessel_y0": special.y0,
    "bessel_y1": special.y1,
    "modified_bessel_k0": special.k0,
    "modified_bessel_k1": special.k1,
    "scaled_modified_bessel_k0": special.k0e,
    "scaled_modified_bessel_k1": special.k1e,
}


def test_float32_beside_eager() -> None:
    # The oscillating ones are held to their amplitude, 0.1 at the least here. Eager's Ai(-2.2) is off by 1.5e-6.
    floors = {name: 1.0 if name == "airy_ai" else 0.1 for name in TWINS}
    cases = [Case(f"aten.special_{name}.default", (POINTS.float(),), ulps=32, floor=floors[name]) for name in TWINS]
    check(cases, at_least=len(TWINS))


@pytest.mark.parametrize("name", TWINS)
def test_float64_beside_scipy(name: str) -> None:
    graph, tensors, _ = merged([Case(f"aten.special_{name}.default", (POINTS,))])
    got = np.asarray(run(graph, tensors, EAGER)[0])
    finite = np.isfinite(POINTS.numpy()) & ((POINTS.numpy() > 0) | ("bessel_j" in name) | (name == "airy_ai"))
    want = TWINS[name](POINTS.numpy())
    finite &= np.abs(want) > 1e-200  # eager has a 0 where Ai is smaller
    np.testing.assert_allclose(got[finite], want[finite], rtol=2e-14, atol=2e-15)

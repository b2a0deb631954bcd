"""A sample of docs/evidence/ulp.md (`make ulp`): what each preset's decision costs an operation, in ULPs."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from bench import ulp
from bench.ulp import Row
from bench.ulp_calls import Call, calls, without_a_call
from truecast import dtypes

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "ulp.md"


@functools.cache
def named(name: str) -> Call:
    return next(call for call in calls(name.split(".")[0]) if call.name == name)


def measured(name: str, dtype: torch.dtype = torch.bfloat16) -> dict[str, Row]:
    """The row of each preset."""
    return {preset: row for row in ulp.rows(named(name), dtype) for preset in row.presets}


@pytest.mark.parametrize("name", ["add.Tensor", "exp.default", "sigmoid.default", "sum.dim_IntList", "mm.default"])
def test_eager_rounds_correctly(name: str) -> None:
    row = measured(name)["eager"]
    # Computed in float32 and rounded to 8 bits: float32's own error moves a tie by 2^-14 units, a sum's by some more.
    assert row.errors["random"].ulps_largest <= 0.5 + 2.0**-7
    assert all(row.errors[family].strays == 0 for family in ("random", "small", "cancelling", "subnormal"))


def test_presets_that_decide_alike_share_a_row() -> None:
    rows = ulp.rows(named("_softmax.default"), torch.bfloat16)
    assert sorted(p for row in rows for p in row.presets) == sorted(ulp.PRESETS)
    by_first = {row.presets[0]: row for row in rows}
    assert set(by_first) == {"eager", "tpu", "neuron"}
    assert {"torch_xla-2.9", "torch_xla-2.10"} < set(by_first["tpu"].presets)
    narrow, wide = (by_first[p].errors["random"].ulps_median for p in ("tpu", "eager"))
    assert narrow > 3 * wide


def test_a_float32_held_as_bfloat16_shows() -> None:
    rows = measured("mul.Tensor", torch.float32)
    assert rows["torch_xla-2.9"].errors["random"].ulps_largest <= 0.5
    assert rows["legacy-xla-bf16"].errors["random"].ulps_median > 2.0**12
    assert rows["legacy-xla-bf16"].decision.endswith("float32 held as bfloat16")


def test_known_sums_in_bfloat16() -> None:
    found = ulp.known()
    # As torch_xla 2.9.0 itself has them on these numbers.
    assert found["sum"] == pytest.approx((6.91e-3, 1.35e-3, 0.78125), rel=5e-3)
    assert found["softmax"] == pytest.approx((4.39e-3, 1.35e-3, 0.66757), rel=5e-3)


def test_a_result_beyond_the_range_is_right_if_it_is_infinite() -> None:
    exact = np.array([65519.0, 65520.0, -65520.0, 1.0])  # float16 rounds the first to 65504, the second to infinity
    np.testing.assert_array_equal(ulp._overflown(exact, dtypes.float16), [65519.0, np.inf, -np.inf, 1.0])


@pytest.mark.parametrize("family", [*ulp.FAMILIES, "positive"])
def test_families_of_inputs(family: str) -> None:
    (x,) = ulp.inputs(family, [(64, 32)], torch.float16)
    (again,) = ulp.inputs(family, [(64, 32)], torch.float16)
    assert torch.equal(x, again) and x.isfinite().all()
    size = x.double().abs()
    bounds = {
        "large": (2.0**7, 65504),
        "small": (2.0**-14, 2.0**-7),
        "subnormal": (0, 2.0**-14),
        "cancelling": (1, 1 + 8 * 2.0**-10),
        "positive": (0, 1),
        "random": (0, 8),
    }
    least, most = bounds[family]
    assert least <= size.min() and size.max() <= most
    if family == "cancelling":
        assert abs(x.double().sum(1)).max() < 32 * 8 * 2.0**-10


def test_what_is_not_measured_is_known() -> None:
    assert without_a_call() == NOT_MEASURED


# Forms of what is measured (composites, other backends' kernels), and products of ragged groups.
NOT_MEASURED = [
    *("_batch_norm_no_update", "_batch_norm_with_update_functional", "_grouped_mm", "batch_norm_backward"),
    *("linear_backward", "logcumsumexp", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward", "native_norm"),
]


def test_the_page_has_what_is_measured() -> None:
    text = PAGE.read_text()
    shown = set(re.findall(r"^\| (\S+) \| bfloat16", text, re.MULTILINE))
    assert {call.name for call in calls()} - shown == REFUSED
    assert "| sum | 0.00691 | 0.00135 | 78% |" in text and "| softmax | 0.00439 | 0.00135 | 67% |" in text


# PyTorch has no 16-bit kernel.
REFUSED = {"_standard_gamma_grad.default"}

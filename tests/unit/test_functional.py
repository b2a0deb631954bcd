"""The functional form of every ATen operation that writes, found from its schema."""

from __future__ import annotations

import pytest
import torch

from truecast.capture.functional import functional_form, is_view, writes
from truecast.ops.schema import schema


@pytest.mark.parametrize(
    ("op", "form", "written", "first"),
    [
        ("aten.add_.Tensor", "aten.add.Tensor", ("self",), 0),
        ("aten.add.out", "aten.add.Tensor", ("out",), 0),
        ("aten.sum.IntList_out", "aten.sum.dim_IntList", ("out",), 0),
        ("aten.max.dim_max", "aten.max.dim", ("max", "max_values"), 0),
        ("aten.index_put_.default", "aten.index_put.default", ("self",), 0),
        ("aten.normal_.default", "aten.normal_functional.default", ("self",), 0),
        ("aten.uniform_.default", "aten.uniform.default", ("self",), 0),
        ("aten._foreach_add_.List", "aten._foreach_add.List", ("self",), 0),
        ("aten.native_layer_norm.out", "aten.native_layer_norm.default", ("out0", "out1", "out2"), 0),
        (
            "aten._native_batch_norm_legit.default",
            "aten._native_batch_norm_legit_functional.default",
            ("running_mean", "running_var"),
            3,
        ),
        (
            "aten.native_batch_norm.default",
            "aten._native_batch_norm_legit_functional.default",
            ("running_mean", "running_var"),
            3,
        ),
        (
            "aten._fused_sgd_.default",
            "aten._fused_sgd.default",
            ("self", "grads", "momentum_buffer_list"),
            0,
        ),
    ],
)
def test_functional_forms(op: str, form: str, written: tuple[str, ...], first: int) -> None:
    found = functional_form(op)
    assert found is not None
    assert (found.op, found.written, found.first_written) == (form, written, first)
    assert schema(found.op).is_functional


def test_an_operation_without_a_functional_form() -> None:
    assert functional_form("aten.record_stream.default") is None


# Composites, which PyTorch splits up, and what no program calls by itself (Sobol engines, dropout masks, set_).
_WITHOUT = [
    "aten._fill_mem_eff_dropout_mask_.default",
    "aten._sobol_engine_ff_.default",
    "aten._sobol_engine_initialize_state_.default",
    "aten._sobol_engine_scramble_.default",
    "aten.alpha_dropout_.default",
    "aten.dropout_.default",
    "aten.feature_alpha_dropout_.default",
    "aten.feature_dropout_.default",
    "aten.fill_diagonal_.default",
    "aten.polygamma_.default",
    "aten.requires_grad_.default",
    "aten.set_.source_Tensor_storage_offset",
]


def test_every_other_operation_in_place_has_a_functional_form() -> None:
    missing = []
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::"):
            continue
        base, _, variant = name.removeprefix("aten::").partition(".")
        if not base.endswith("_") or base.startswith("__") or base.endswith("__"):
            continue
        op = f"aten.{base}.{variant or 'default'}"
        if writes(op) and functional_form(op) is None:
            missing.append(op)
    assert sorted(missing) == _WITHOUT


@pytest.mark.parametrize(
    ("op", "view", "written"),
    [
        ("aten.t.default", True, False),
        ("aten.split.Tensor", True, False),
        ("aten._unsafe_view.default", True, False),
        ("aten.add.Tensor", False, False),
        ("aten.add_.Tensor", False, True),
        ("aten.native_batch_norm.default", False, True),
    ],
)
def test_views_and_writes(op: str, view: bool, written: bool) -> None:
    assert (is_view(op), writes(op)) == (view, written)

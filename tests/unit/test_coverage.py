"""Every operation that PyTorch tags as core can be lowered, directly or by a definition that decides no precision."""

from __future__ import annotations

import pytest
import torch

from truecast import dtypes, ops
from truecast.capture import decompose
from truecast.errors import UnsupportedError
from truecast.graph import Node, Value
from truecast.lowering import rules as _rules  # noqa: F401  (registers every rule)
from truecast.lowering.registry import find, rule_for
from truecast.sites import Site

# What backward passes and optimizers dispatch on the CPU, besides core operations.
TRAINING = (
    "convolution_backward native_layer_norm_backward native_group_norm_backward native_batch_norm_backward "
    "_native_batch_norm_legit_functional _softmax_backward_data _log_softmax_backward_data gelu_backward silu_backward "
    "threshold_backward tanh_backward sigmoid_backward leaky_relu_backward elu_backward hardswish_backward "
    "softplus_backward embedding_dense_backward max_pool2d_with_indices_backward avg_pool2d_backward "
    "avg_pool3d_backward _adaptive_avg_pool2d_backward nll_loss_forward nll_loss_backward nll_loss2d_backward "
    "mse_loss_backward smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward native_dropout "
    "native_dropout_backward slice_backward select_backward unfold_backward upsample_bilinear2d_backward.default "
    "upsample_nearest2d_backward.default _scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_flash_attention_for_cpu_backward index_put.default scatter_add _fused_adam.default "
    "_fused_adamw.default _fused_sgd.default mkldnn_rnn_layer_backward linalg_qr linalg_eigh _linalg_solve_ex"
).split()


# It changes what a tensor is, not a value: capture gives an empty tensor its new shape and refuses any other.
BY_CAPTURE = frozenset(["aten.resize_.default"])


def core_overloads() -> list[str]:
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        if namespace == "aten":
            base, _, variant = rest.partition(".")
            packet = getattr(torch.ops.aten, base)
            if torch.Tag.core in getattr(packet, variant or "default").tags:
                found.append(f"aten.{base}.{variant or 'default'}")
    return found


def is_covered(op: str) -> bool:
    row = ops.lookup(op)
    return find(op) is not None or decompose.definition_of(op) is not None or (row is not None and row.kind == "query")


def test_every_core_overload_is_covered() -> None:
    core = core_overloads()
    assert len(core) >= 189
    assert [op for op in core if op not in BY_CAPTURE and not is_covered(op)] == []


@pytest.mark.parametrize("name", TRAINING)
def test_training_is_covered(name: str) -> None:
    assert is_covered(f"aten.{name}" if "." in name else f"aten.{name}.default")


def test_the_coverage_check_can_fail() -> None:
    assert not is_covered("aten.resize.default")


def test_a_missing_rule_names_the_overload_the_line_and_the_way_out() -> None:
    value = Value("x", dtypes.float32, (2,))
    node = Node("aten.sparse_mask.default", (value,), (), (Value("y", value.dtype, (2,)),), Site("model.py", 7, 5))
    with pytest.raises(UnsupportedError) as caught:
        rule_for(node)
    assert "aten.sparse_mask.default has no lowering rule\n  --> model.py:7:5\n" in str(caught.value)
    assert "add a row in ops/ and a rule in lowering/ (CONTRIBUTING.md" in str(caught.value)

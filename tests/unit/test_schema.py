"""Holds down what ops/schema.py reads from torch's private OpOverload._schema (torch 2.13)."""

from __future__ import annotations

import pytest

from truecast.dtypes import bfloat16
from truecast.ops.schema import bind, overload, schema


def _described(op: str) -> list[tuple[str, str]]:
    return [(p.name, p.cls) for p in schema(op).parameters]


def test_argument_classes() -> None:
    assert _described("aten.add.Tensor") == [("self", "tensor"), ("other", "tensor"), ("alpha", "scalar")]
    assert _described("aten.cat.default") == [("tensors", "tensor_list"), ("dim", "other")]
    assert _described("aten.index.Tensor") == [("self", "tensor"), ("indices", "tensor_list")]
    assert _described("aten.clamp.default") == [("self", "tensor"), ("min", "scalar"), ("max", "scalar")]
    assert _described("aten.convolution.default")[:3] == [("input", "tensor"), ("weight", "tensor"), ("bias", "tensor")]
    assert ("dtype", "dtype") in _described("aten.sum.dim_IntList")
    assert _described("aten.native_dropout.default") == [("input", "tensor"), ("p", "other"), ("train", "other")]


def test_what_is_written() -> None:
    assert schema("aten.add.Tensor").is_functional
    in_place = schema("aten.add_.Tensor")
    assert [p.name for p in in_place.parameters if p.written] == ["self"]
    assert in_place.written_returns == (True,)
    out = schema("aten.add.out")
    assert [p.name for p in out.parameters if p.written] == ["out"]
    assert not schema("aten.native_batch_norm.default").written_returns[0]


def test_number_of_returns() -> None:
    assert schema("aten.native_layer_norm.default").returns == 3
    assert schema("aten._assert_async.default").returns == 0


def test_defaults_are_filled_in_and_lists_become_tuples() -> None:
    assert bind("aten.add.Tensor", (1, 2), ()) == {"self": 1, "other": 2, "alpha": 1}
    bound = bind("aten.max_pool2d_with_indices.default", ("x", (2, 2)), ())
    assert bound["stride"] == () and bound["padding"] in (0, (0, 0)) and bound["ceil_mode"] is False
    assert bind("aten.sum.dim_IntList", ("x", (0,)), (("dtype", bfloat16),))["dtype"] is bfloat16


@pytest.mark.parametrize("op", ["aten.no_such_operation.default", "aten.add.NoSuchOverload"])
def test_an_unknown_overload_is_a_key_error(op: str) -> None:
    with pytest.raises(KeyError):
        overload(op)

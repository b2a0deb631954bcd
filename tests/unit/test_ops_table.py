"""The ops table as data: it covers what it must, names what exists, and uses documented words only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  (registers the operations of mixtures of experts)
from torch._subclasses.fake_tensor import FakeTensorMode

from truecast import dtypes, ops
from truecast.graph import Node, Value
from truecast.ops import contracts
from truecast.ops.contract_rows import CONTRACTS
from truecast.ops.operands import promoted_dtype, result_dtypes
from truecast.ops.schema import schema
from truecast.ops.table import RETURN_DTYPES, Demand, Kind, Promotion, Range

_TABLE_SOURCE = Path(ops.__file__).with_name("table.py").read_text()


def _overloads() -> Iterator[str]:
    """Those of PyTorch, truecast's own, and those of the libraries whose operations the table knows."""
    schema("truecast.call_jax.default")  # declares truecast's own
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        if namespace in ("aten", "transformers", "truecast"):
            base, _, variant = rest.partition(".")
            yield f"{namespace}.{base}.{variant or 'default'}"


OVERLOADS = tuple(_overloads())


def _tagged(op: str) -> bool:
    namespace, base, variant = op.split(".")
    return torch.Tag.core in getattr(getattr(getattr(torch.ops, namespace), base), variant).tags


def test_every_core_overload_has_a_row() -> None:
    assert [op for op in OVERLOADS if _tagged(op) and ops.lookup(op) is None] == []
    assert sum(map(_tagged, OVERLOADS)) >= 189


def test_every_name_exists_in_torch() -> None:
    names = {op.removeprefix("aten.") for op in OVERLOADS}
    names |= {name.rpartition(".")[0] for name in names}
    assert [name for name in ops.table() if name not in names and f"{name}_" not in names] == []


def test_numeric_and_return_names_are_schema_arguments() -> None:
    arguments: dict[str, set[str]] = {}
    for op in OVERLOADS:
        row = ops.lookup(op)
        if row is None:
            continue
        described = schema(op)
        for name in row.names:
            arguments.setdefault(name, set()).update(p.name for p in described.parameters)
        if row.returns and described.is_functional:
            assert len(row.returns) == described.returns, op
    for row in dict.fromkeys(ops.table().values()):
        known = {argument for name in row.names for argument in arguments[name]}
        assert set(row.numeric or ()) <= known, row
        assert {name for name, _ in row.numbers} <= known, row
        for token in row.returns:
            names = {token} if token in RETURN_DTYPES else set(token.split("|"))
            assert names <= known | RETURN_DTYPES, row


def test_contract_operands_are_schema_arguments_and_messages_name_them() -> None:
    for name, demands in CONTRACTS.items():
        base, _, variant = name.partition(".")
        matching = [
            op for op in OVERLOADS if op.split(".")[1] in (base, f"{base}_") and variant in ("", op.split(".")[2])
        ]
        known = {p.name for op in matching for p in schema(op).parameters}
        for demand in demands:
            assert {*demand.operands, *demand.given, *demand.absent} <= known, name
            assert demand.follow in ("", *demand.operands), name
            fields = {field.split(".")[0] for _, field, _, _ in Formatter().parse(demand.message) if field}
            assert fields <= known | {"found"}, name
            assert demand.allowed or demand.demand != "allowed", name


def test_every_word_of_the_vocabulary_is_documented_and_used() -> None:
    rows = set(ops.table().values())
    for words, used in (
        (get_args(Kind), {row.kind for row in rows}),
        (get_args(Promotion), {row.promotion for row in rows}),
        (get_args(Range), {kind for row in rows for _, kind in row.numbers}),
        (get_args(Demand), {c.demand for row in rows for c in row.contracts}),
    ):
        assert set(words) == used
        undocumented = [w for w in words if not re.search(rf'^    "{w}",(?:  # \S.+)?$', _TABLE_SOURCE, re.M)]
        assert undocumented == []


def test_two_rows_may_not_claim_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "_FAMILIES", (ops.sorting, ops.sorting))
    with pytest.raises(ValueError, match="two rows in ops/ claim 'sort'"):
        ops.table.__wrapped__()


def test_in_place_and_out_forms_have_their_functional_row() -> None:
    assert ops.lookup("aten.add_.Tensor") is ops.lookup("aten.add.Tensor") is ops.lookup("aten.add.out")
    assert ops.lookup("aten._fused_adam_.default") is not None
    assert ops.lookup("aten.max.dim") is not ops.lookup("aten.max.default")
    assert ops.lookup("aten.no_such.default") is None


# -- the meaning of a row, on single nodes ---------------------------------------------------------------------------


def _value(name: str, dtype: str, *shape: int) -> Value:
    return Value(name, dtypes.of(dtype), shape)


def _row(op: str) -> ops.Op:
    row = ops.lookup(op)
    assert row is not None
    return row


def _results(op: str, *args: object, default: str = "float32", **kwargs: object) -> list[str]:
    node = Node(op, args, tuple(kwargs.items()), ())
    return [d.name for d in result_dtypes(node, _row(op), dtypes.of(default))]


HALF, WIDE, WHOLE = _value("h", "bfloat16", 3), _value("w", "float32", 3), _value("i", "int64", 3)
MASK, PAIR = _value("m", "bool", 3), _value("c", "complex64", 3)


@pytest.mark.parametrize(
    ("op", "args", "results"),
    [
        ("aten.add.Tensor", (HALF, _value("z", "float32")), ["bfloat16"]),
        ("aten.add.Tensor", (HALF, WIDE), ["float32"]),
        ("aten.add.Tensor", (WHOLE, 0.5), ["float32"]),
        ("aten.add.Tensor", (MASK, MASK), ["bool"]),
        ("aten.add_.Tensor", (HALF, WIDE), ["bfloat16"]),
        ("aten.div.Tensor", (WHOLE, WHOLE), ["float32"]),
        ("aten.eq.Tensor", (HALF, WIDE), ["bool"]),
        ("aten.sum.default", (MASK,), ["int64"]),
        ("aten.abs.default", (PAIR,), ["float32"]),
        ("aten.sort.default", (HALF,), ["bfloat16", "int64"]),
        ("aten.masked_fill.Scalar", (WHOLE, MASK, 1.5), ["int64"]),
        ("aten.full.default", ((2,), True), ["bool"]),
        ("aten.arange.start_step", (0, 3, 1), ["int64"]),
        ("aten.arange.start_step", (0, 3.0, 1), ["float32"]),
        ("aten.native_layer_norm.default", (HALF, (3,), WIDE, WIDE, 1e-5), ["bfloat16", "float32", "float32"]),
        ("aten.frexp.Tensor", (HALF,), ["bfloat16", "int32"]),
    ],
)
def test_results(op: str, args: tuple[object, ...], results: list[str]) -> None:
    assert _results(op, *args) == results


def test_an_explicit_dtype_and_a_rounding_mode_decide() -> None:
    assert _results("aten.sum.default", HALF, dtype=dtypes.float64) == ["float64"]
    assert _results("aten.div.Tensor_mode", WHOLE, WHOLE, rounding_mode="floor") == ["int64"]
    assert _results("aten.div.Tensor_mode", WHOLE, WHOLE, rounding_mode=None) == ["float32"]


def test_the_default_dtype_shows_where_python_floats_do() -> None:
    assert _results("aten.add.Tensor", WHOLE, 0.5, default="float64") == ["float64"]
    assert _results("aten.rand.default", (2,), default="bfloat16") == ["bfloat16"]
    node = Node("aten.add.Tensor", (WHOLE, 0.5), (), (_value("out", "float64", 3),))
    assert promoted_dtype(node, _row("aten.add.Tensor")) is dtypes.float64


def test_a_composite_says_no_dtypes() -> None:
    with pytest.raises(ValueError, match=r"aten\.linear\.default is a composite"):
        _results("aten.linear.default", HALF, HALF)


# -- contracts, law N12 ----------------------------------------------------------------------------------------------


def _violation(op: str, *args: object) -> contracts.Violation:
    violation = contracts.check(Node(op, args, (), ()), _row(op))
    assert violation is not None
    return violation


def test_linear_refuses_what_fake_tensors_let_pass() -> None:
    with FakeTensorMode():  # if torch raises here one day, the table is still right
        torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3, dtype=torch.bfloat16))
    activation, weight = _value("x", "float32", 2, 3), _value("w", "bfloat16", 4, 3)
    without_bias = _violation("aten.linear.default", activation, weight)
    assert without_bias.message == "expected m1 and m2 to have the same dtype, but got: float != c10::BFloat16"
    assert without_bias.operands == (("input", dtypes.float32), ("weight", dtypes.bfloat16))
    assert without_bias.casts == (("input", dtypes.bfloat16),)
    with_bias = _violation("aten.linear.default", activation, weight, _value("b", "bfloat16", 4))
    assert with_bias.message == "mat1 and mat2 must have the same dtype, but got Float and BFloat16"
    assert with_bias.casts == (("input", dtypes.bfloat16),)
    assert isinstance(with_bias.raised(), RuntimeError)


def test_layer_norm_takes_float32_parameters_for_16_bits_and_nothing_else() -> None:
    op = "aten.native_layer_norm.default"
    narrow, wide = _value("w", "bfloat16", 3), _value("w", "float32", 3)
    assert contracts.check(Node(op, (HALF, (3,), wide, wide, 1e-5), (), ()), _row(op)) is None
    violation = _violation(op, WIDE, (3,), narrow, narrow, 1e-5)
    assert violation.message == "mixed dtype (CPU): expect parameter to have scalar type of Float"
    assert violation.casts == (("input", dtypes.bfloat16),)


def test_a_result_that_its_target_cannot_hold() -> None:
    violation = _violation("aten.add_.Tensor", WHOLE, WIDE)
    assert violation.message == "result type Float can't be cast to the desired output type Long"
    assert violation.casts == ()


def test_positions_must_be_whole_numbers() -> None:
    violation = _violation("aten.index.Tensor", WIDE, (WIDE,))
    assert violation.exception is IndexError
    assert violation.message == "tensors used as indices must be long, int, byte or bool tensors"


@pytest.mark.parametrize("op", ["gather.default", "scatter.value", "scatter_add.default", "index_select.default"])
@pytest.mark.parametrize("extent", [0, 2])
def test_gather_and_scatter_look_at_an_index_that_has_elements(op: str, extent: int) -> None:
    """Eager takes an empty index of any dtype there; index_select, their neighbour, does not."""
    name, variant = op.split(".")
    index = torch.zeros(extent)
    source = {"scatter": (1.0,), "scatter_add": (index,)}.get(name, ())
    try:
        getattr(getattr(torch.ops.aten, name), variant)(torch.zeros(3), 0, index, *source)
        taken = True
    except RuntimeError:
        taken = False
    place = _value("i", "float32", extent)
    node = Node(f"aten.{op}", (WIDE, 0, place, *(place if s is index else s for s in source)), (), ())
    assert (contracts.check(node, _row(node.op)) is None) == taken == (extent == 0 and name != "index_select")


def test_mean_takes_whole_numbers_with_a_dtype() -> None:
    op = "aten.mean.default"
    assert contracts.check(Node(op, (WHOLE,), (("dtype", dtypes.float32),), ()), _row(op)) is None
    assert _violation(op, WHOLE).message.endswith("Got: Long")


def test_optimizer_lists_agree_tensor_by_tensor() -> None:
    op, lists = "aten._fused_sgd_.default", ((HALF, WIDE), (HALF, HALF), (HALF, WIDE))
    kwargs = {"weight_decay": 0.0, "momentum": 0.9, "lr": 0.1, "dampening": 0.0, "nesterov": False, "maximize": False}
    node = Node(op, lists, (*kwargs.items(), ("is_first_step", True)), ())
    violation = contracts.check(node, _row(op))
    assert violation is not None
    assert violation.message == "expected scalar type Float but found BFloat16"

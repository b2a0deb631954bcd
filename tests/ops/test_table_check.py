"""The table check on a sample of its calls (fixed seed), and that it notices a wrong table."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from tests.ops import table_check
from truecast import ops

pytestmark = pytest.mark.filterwarnings("ignore")


def test_promotion_is_eagers_on_a_sample() -> None:
    assert list(map(str, table_check.check_promotion(random.Random(20), per_op=12))) == []


def test_contracts_are_eagers_on_a_sample() -> None:
    assert list(map(str, table_check.check_contracts(random.Random(21), per_op=16))) == []


def test_casts_make_eager_accept_on_a_sample() -> None:
    assert list(map(str, table_check.check_casts(random.Random(22), per_op=12))) == []


def _with_row(monkeypatch: pytest.MonkeyPatch, op: str, **changes: object) -> None:
    row = ops.lookup(op)
    assert row is not None
    changed = replace(row, **changes)  # type: ignore[arg-type]
    monkeypatch.setattr(ops, "lookup", lambda name: changed if name == op else None)


def test_a_wrong_promotion_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_row(monkeypatch, "aten.add.Tensor", promotion="int_to_float")
    args = [torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)]
    (difference,) = table_check.differences("aten.add.Tensor", args)
    assert str(difference) == ("aten.add.Tensor(int64[2], int64[2])\n    table: gives float32\n    eager: gives int64")


def test_a_missing_contract_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_row(monkeypatch, "aten.mm.default", contracts=())
    (difference,) = table_check.differences("aten.mm.default", [torch.ones(2, 2), torch.ones(2, 2).bfloat16()])
    assert (difference.table, difference.eager) == (
        "accepts",
        "RuntimeError: expected m1 and m2 to have the same dtype, but got: float != c10::BFloat16",
    )


def test_a_contract_that_eager_does_not_have_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    mm = ops.lookup("aten.bmm.default")
    assert mm is not None
    demand = replace(mm.contracts[0], operands=("self", "other"), follow="")
    _with_row(monkeypatch, "aten.add.Tensor", contracts=(demand,))
    (difference,) = table_check.differences("aten.add.Tensor", [torch.ones(2), torch.ones(2).bfloat16()])
    assert difference.table == "RuntimeError: expected scalar type Float but found BFloat16"
    assert difference.eager == "gives float32"


def test_other_words_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ops.lookup("aten.mm.default")
    assert row is not None
    _with_row(monkeypatch, "aten.mm.default", contracts=(replace(row.contracts[0], message="no"),))
    (difference,) = table_check.differences("aten.mm.default", [torch.ones(2, 2), torch.ones(2, 2).bfloat16()])
    assert difference.table == "RuntimeError: no"


def test_every_contract_is_called() -> None:
    calls = [*(f"aten.{label.partition('/')[0]}" for label in table_check.CALLS), *table_check.elementwise_overloads()]
    called = {id(ops.lookup(op)) for op in calls}
    uncalled = {name for name, row in ops.table().items() if row.contracts and id(row) not in called}
    assert uncalled == _UNCALLED


# Contracts that eager is not asked about on their own, and why.
_UNCALLED = frozenset(
    (
        "conv1d",  # as conv2d
        "conv3d",  # as conv2d
        "_addmm_activation",  # as addmm
        "_native_batch_norm_legit_functional",  # as _native_batch_norm_legit
    )
)

"""The sweep in a sampled form: the same children and judge on a fixed choice of operators."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

import truecast as tc
from tests.ops import device_child
from tests.ops.judge import as_near, judge
from tests.ops.samples import (
    calls,
    elementwise_movement_or_indexing,
    elementwise_or_reduction,
    operators,
    smallest_first,
)
from tests.ops.sweep import COLUMNS, Journal, Record, device_markdown, markdown, run_children, without_fallback

# A fixed sample of operators of every kind, three samples each.
CHOSEN = random.Random(20).sample(sorted(operators()), 36)


def test_a_sample_of_the_database() -> None:
    records = run_children(CHOSEN, ("float32", "bfloat16"), limit=3, jobs=2, patience=180)
    exact = elementwise_or_reduction()
    not_allowed = [r for r in records if r.outcome in ("crash", "wrong dtype", "error")]
    not_allowed += [r for r in records if r.outcome == "wrong value" and r.operator in exact]
    assert not_allowed == []
    total = sum(r.count for r in records)
    assert total >= 150
    assert sum(r.count for r in records if r.outcome == "pass") >= 0.88 * total


def test_a_child_that_dies_is_a_crash_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUECAST_SWEEP_DIES_AT", "abs")
    records = run_children(["abs", "neg"], ("float32",), limit=1, jobs=1, patience=120)
    assert Record("abs", "all", "crash", 1, "the process died with status -11") in records
    assert [(r.operator, r.outcome) for r in records if r.operator == "neg"] == [("neg", "pass")]


@pytest.mark.parametrize(
    ("got", "outcome"),
    [
        (torch.tensor([1.0, 2.0]), "pass"),
        (torch.tensor([1.0, 2.0], dtype=torch.float64), "wrong dtype"),
        (torch.tensor([1.0, 2.1]), "wrong value"),
        (torch.tensor([1.0, float("nan")]), "wrong value"),
        (torch.tensor([[1.0, 2.0]]), "wrong value"),
    ],
)
def test_the_judge(got: torch.Tensor, outcome: str) -> None:
    assert judge([got], [torch.tensor([1.0, 2.0])])[0] == outcome
    assert judge([got, got], [torch.tensor([1.0, 2.0])])[0] == "wrong value"


def test_nearer_to_the_exact_result_than_eager_passes() -> None:
    eager, exact = torch.tensor([1.1]), torch.tensor([1.0], dtype=torch.float64)
    assert judge([torch.tensor([1.01])], [eager], [exact])[0] == "pass"
    assert judge([torch.tensor([1.3])], [eager], [exact])[0] == "wrong value"


def test_what_many_operations_make_is_judged_as_a_whole() -> None:
    eager, exact = torch.tensor([1.1, 1.0]), torch.tensor([1.0, 1.0], dtype=torch.float64)
    assert as_near([torch.tensor([1.0, 1.14])], [eager], [exact])
    assert not as_near([torch.tensor([1.0, 1.16])], [eager], [exact])
    assert not as_near([torch.tensor([1.0])], [eager[:1]], [exact])
    lucky = torch.tensor([1.0])
    assert as_near([torch.tensor([1.0, 1.01]), lucky + 0.01], [eager, lucky], [exact, lucky.double()])
    assert not as_near([torch.tensor([1.0, 1.01]), lucky + 0.2], [eager, lucky], [exact, lucky.double()])
    nan = torch.tensor([float("nan"), 1.1, 1.0])
    assert as_near([torch.tensor([float("nan"), 1.0, 1.14])], [nan], [torch.tensor([float("nan"), 1.0, 1.0])])
    assert not as_near([torch.tensor([0.0, 1.0, 1.1])], [nan], [nan.double()])
    assert not as_near([torch.tensor([1.0, float("nan")])], [eager], [exact])
    assert not as_near([eager, torch.tensor([2])], [eager, torch.tensor([1])], [exact, torch.tensor([1])])


def test_a_defined_result_passes_where_eager_has_none() -> None:
    eager, exact = torch.tensor([float("nan")]), torch.tensor([3.0], dtype=torch.float64)
    assert judge([torch.tensor([3.0])], [eager], [exact])[0] == "pass"
    assert judge([torch.tensor([3.1])], [eager], [exact])[0] == "wrong value"
    assert judge([torch.tensor([3.0])], [eager], [torch.full((1,), float("nan"))])[0] == "wrong value"


def test_eigenvectors_are_compared_by_what_they_multiply_to() -> None:
    (call, *_) = calls(operators()["linalg.eigh"], torch.float32, gradient=False, limit=1)
    matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    values, rebuilt, gram = call.run((matrix,), {})
    torch.testing.assert_close(rebuilt, matrix)
    torch.testing.assert_close(gram, torch.eye(2))
    torch.testing.assert_close(values, torch.linalg.eigvalsh(matrix))


@pytest.mark.parametrize("name", ["svd", "linalg.svd"])
def test_singular_vectors_are_compared_by_what_they_multiply_to(name: str) -> None:
    (call, *_) = calls(operators()[name], torch.float32, gradient=False, limit=1)
    matrix = torch.tensor([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0]])
    values, rebuilt, left, right = call.run((matrix,), {"some": True} if name == "svd" else {"full_matrices": False})
    torch.testing.assert_close(rebuilt, matrix)
    torch.testing.assert_close((left, right), (torch.eye(2), torch.eye(2)))
    torch.testing.assert_close(values, torch.linalg.svdvals(matrix))


def test_the_report_counts_and_lists() -> None:
    records = [Record("mm", "float32", "pass", 9), Record("mm", "float32", "wrong value", 1, "2 for 1")]
    text = markdown(records, 12)
    assert "| float32 | 10 | 9 | 0 | 1 | 0 | 0 | 0 | 90.0% |" in text
    assert "- `mm` float32 (1): 2 for 1. not explained yet" in text
    assert set(COLUMNS) >= {"float32", "bfloat16", "gradient"}


def test_the_device_report_has_both_columns() -> None:
    records = [Record("mm", "float32", "pass", 9), Record("mm", "float32", "pass", 1, "", "aten.mm.out")]
    text = device_markdown({"operators": records, "training": []}, 0)
    helped, strict = text.split("## TRUECAST_FALLBACK=error")
    assert "| float32 | 10 | 10 | 0 | 0 | 0 | 0 | 0 | 100.0% |" in helped
    assert "| float32 | 10 | 9 | 0 | 0 | 1 | 0 | 0 | 90.0% |" in strict
    assert "- aten.mm.out has no lowering for this form: `mm` float32" in strict
    assert "\nNot run: `abs`.\n" in device_markdown({"operators": records, "training": []}, 0, ["Not run: `abs`."])


@pytest.mark.xdist_group("device sweep")
def test_a_sample_of_the_database_on_the_device() -> None:
    with_the_cpu = run_children(CHOSEN[::3], ("float32", "int64"), limit=1, jobs=1, patience=180, worker="device_child")
    records = without_fallback(with_the_cpu)
    exact = elementwise_movement_or_indexing()
    not_allowed = [r for r in records if r.outcome in ("crash", "wrong dtype", "error")]
    not_allowed += [r for r in records if r.outcome == "wrong value" and r.operator in exact]
    assert not_allowed == []
    passed, total = (sum(r.count for r in some) for some in ([r for r in records if r.outcome == "pass"], records))
    assert total >= 30
    assert passed >= 0.9 * total


@pytest.mark.parametrize("name", ["hash_tensor", "linalg.ldl_factor", "chalf", "neg"])
def test_a_sample_with_a_fallback_is_one_that_is_refused_without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tc.device()
    info = operators()[name]
    helped = list(device_child.outcomes(info, "float32", 2))
    monkeypatch.setenv("TRUECAST_FALLBACK", "error")
    strict = list(device_child.outcomes(info, "float32", 2))
    assert [o.outcome for o in strict] == ["unsupported" if o.fallback else o.outcome for o in helped]
    assert any(o.fallback for o in helped) == (name in ("hash_tensor", "linalg.ldl_factor"))


def test_a_sweep_goes_on_from_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    first, second = Record("mm", "float32", "error", 1, "x"), Record("mm", "float32", "pass", 1)
    Journal(path, resume=False).add("operators", "mm", [first])
    journal = Journal(path, resume=True)
    assert journal.records("operators", ["mm", "abs"]) == [first]
    journal.add("operators", "mm", [second])  # it was run again
    journal.add("operators", "abs", [])
    assert Journal(path, resume=True).records("operators", ["mm"]) == [second]
    assert set(Journal(path, resume=True).found["operators"]) == {"mm", "abs"}
    more = Journal(path, resume=True, limit=2)
    more.add("operators", "neg", [])
    assert more.remaining("operators", ["mm", "neg", "sin"]) == ["mm", "sin"]
    assert journal.notes("operators", ["mm"]) == [] and len(journal.commits) == 1
    again = Journal(path, resume=True)
    assert again.notes("operators", ["mm", "neg", "sin"]) == ["With at most 2 samples: `neg`.", "Not run: `sin`."]
    assert Journal(path, resume=False).records("operators", ["mm"]) == []


def test_the_operators_with_the_fewest_samples_come_first() -> None:
    assert smallest_first(["unique", "abs", "add"]) == ["abs", "add", "unique"]


@pytest.mark.xdist_group("device sweep")
def test_a_sample_of_modules_and_optimizers_on_the_device() -> None:
    names = ["nn.Linear", "nn.BatchNorm1d", "nn.InstanceNorm1d", "nn.Conv2d", "nn.GELU", "optim.AdamW", "optim.SGD"]
    records = run_children(
        names, ("float32",), limit=2, jobs=1, patience=180, worker="training_child", fallback="error"
    )
    assert [r for r in records if r.outcome != "pass"] == []
    assert {r.operator for r in records} == set(names)
    assert sum(r.count for r in records) == 14

"""The metrics of a bisection, beside figures worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from truecast.diagnose.bisect.metrics import METRICS, kl, loss, max_rel, top1
from truecast.errors import UsageError

ROW = np.array([[0.0, math.log(3.0)], [5.0, 1.0]])


def test_max_rel_is_relative_to_the_largest_magnitude_of_each_array() -> None:
    good = [np.array([1.0, -4.0]), np.array([[100.0]]), np.array([1, 2])]
    assert max_rel([np.array([1.5, -4.0]), np.array([[101.0]]), np.array([9, 9])], good) == 0.125
    assert max_rel(good, good) == 0.0


def test_max_rel_of_values_that_are_no_numbers() -> None:
    odd = np.array([np.nan, np.inf, 2.0])
    assert max_rel([odd], [odd.copy()]) == 0.0
    assert max_rel([np.array([np.nan, np.inf, 3.0])], [odd]) == 0.5
    assert max_rel([np.array([0.0, np.inf, 2.0])], [odd]) == math.inf
    assert max_rel([np.array([1.0])], [np.array([0.0])]) == math.inf


def test_kl_of_two_distributions_worked_out_by_hand() -> None:
    uniform = np.array([[0.0, 0.0], [5.0, 1.0]])
    expected = (0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)) / 2
    assert kl([uniform], [ROW]) == pytest.approx(expected, rel=1e-12)
    assert kl([ROW + 1000.0], [ROW]) == pytest.approx(0.0, abs=1e-12)


def test_top1_counts_rows_and_loss_is_the_loss() -> None:
    assert top1([ROW[:, ::-1]], [ROW]) == 1.0
    assert top1([np.array([[1.0, 0.0], [5.0, 1.0]])], [ROW]) == 0.5
    assert loss([ROW, np.array(2.5)], []) == 2.5


@pytest.mark.parametrize(
    ("metric", "what"),
    [
        ("max_rel", "the metric max_rel needs a floating result"),
        ("kl", "this metric needs logits: a floating result with a last dimension"),
        ("top1", "this metric needs logits: a floating result with a last dimension"),
        ("loss", "the metric loss needs a result with one element"),
    ],
)
def test_results_that_a_metric_can_do_nothing_with(metric: str, what: str) -> None:
    integers = [np.array([1, 2])]
    with pytest.raises(UsageError) as error:
        METRICS[metric](integers, integers)
    assert error.value.what == what
    assert error.value.values == "int64[2]"


def test_kl_of_logits_that_a_mask_sets_aside() -> None:
    masked, good = (np.concatenate([x, np.full((2, 1), -np.inf)], axis=-1) for x in (ROW[:, ::-1], ROW))
    assert kl([masked], [good]) == pytest.approx(kl([ROW[:, ::-1]], [ROW]), rel=1e-12)
    assert kl([good], [np.zeros((2, 3))]) == np.inf

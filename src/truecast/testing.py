"""For tests of programs: `assert_dtype_clean(model, *inputs)` and `assert_no_worse(baseline, model, *inputs)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truecast.diagnose.finding import Severity
    from truecast.numerics.scope import Policy


def assert_dtype_clean(
    program: Callable[..., Any],
    *args: Any,
    fail_on: Severity = "error",
    ignore: Iterable[str] = (),
    **kwargs: Any,
) -> None:
    """Raises AssertionError with the report if one call of a function or nn.Module has findings.

    fail_on: the least severity that counts. ignore: beginnings of codes that don't. The call runs on fake tensors and
    leaves the program as it was; a program that does not run to its end fails too.
    """
    from truecast.api.explaining import explain

    report = explain(program, *args, **kwargs).only(ignore=ignore)
    if report.stopped or report.at_least(fail_on):
        raise AssertionError(f"\n{report.render()}")


def assert_no_worse(
    baseline: str | PathLike[str],
    program: Callable[..., Any],
    *args: Any,
    numerics: Policy | None = None,
    reference: str = "float64",
    slack: float = 0.1,
    update: bool = False,
    **kwargs: Any,
) -> None:
    """Raises AssertionError with what is worse if one call of a function or nn.Module is worse than its baseline.

    The rest is as in `truecast gate` (docs/gate.md). update: write the baseline instead.
    """
    from truecast.api import gating
    from truecast.report import gate

    path = Path(baseline)
    figures = gating.measure(program, *args, numerics=numerics, reference=reference, **kwargs)
    if update:
        gating.update(path, figures)
        return
    verdict = gating.check(path, figures, slack)
    if verdict.worse:
        raise AssertionError(f"\n{gate.render(verdict, path.name)}")

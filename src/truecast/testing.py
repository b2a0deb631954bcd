"""For tests of programs: `assert_dtype_clean(model, *inputs)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truecast.diagnose.finding import Severity


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

"""The pytest plug-in: `assert_dtype_clean` and `assert_no_worse`. Imports truecast when a test asks for one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("truecast")
    group.addoption(
        "--truecast-update", action="store_true", help="assert_no_worse writes its baselines instead of comparing"
    )


@pytest.fixture
def assert_dtype_clean() -> Callable[..., None]:
    """`truecast.testing.assert_dtype_clean`: fails the test, with the report, if a call has findings."""
    from truecast.testing import assert_dtype_clean as function

    return function


@pytest.fixture
def assert_no_worse(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`truecast.testing.assert_no_worse`: fails the test, with what is worse, if a call is worse than its baseline.

    A baseline's path is relative to the folder of the test. `pytest --truecast-update` writes the baselines.
    """
    from truecast.testing import assert_no_worse as function

    def check(baseline: str | Path, program: Callable[..., Any], *args: Any, **options: Any) -> None:
        update = request.config.getoption("--truecast-update")
        function(request.path.parent / baseline, program, *args, update=update, **options)

    return check

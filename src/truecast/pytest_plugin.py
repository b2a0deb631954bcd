"""The pytest plug-in: a fixture `assert_dtype_clean`. Imports truecast when a test asks for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def assert_dtype_clean() -> Callable[..., None]:
    """`truecast.testing.assert_dtype_clean`: fails the test, with the report, if a call has findings."""
    from truecast.testing import assert_dtype_clean as function

    return function

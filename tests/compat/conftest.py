"""The layer is in the process only while a test asks for it: other tests of the worker have none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from truecast.compat.install import installed


@pytest.fixture
def layer() -> Iterator[None]:
    with installed():
        yield

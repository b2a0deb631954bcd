"""torch_xla.experimental.eager: operations run at once, but for those of compiled regions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from truecast.compat import steps
from truecast.compat.missing import attribute_of

__getattr__ = attribute_of(__name__)


def eager_mode(enable: bool) -> None:
    """Whether each operation runs at once, outside of torch_xla.compile."""
    steps.set_eager(enable)


def is_eager_mode() -> bool:
    return steps.is_eager()


@contextmanager
def eager_mode_context(enable: bool) -> Iterator[bool]:
    """`eager_mode(enable)` within the block; gives what it was before."""
    before = steps.is_eager()
    steps.set_eager(enable)
    try:
        yield before
    finally:
        steps.set_eager(before)

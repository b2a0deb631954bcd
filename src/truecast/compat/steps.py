"""The end of a step, as torch_xla has it: what is pending runs, then the closures that wait for it; and the compiled
regions in which the debug mode that runs each operation at once is off."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from truecast.api.device import metrics
from truecast.api.device import sync as run_pending
from truecast.capture.device.state import state

_closures: list[Callable[[], Any]] = []
_programs_of: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # compiled for each function so far
marked = 0  # steps so far


def sync(wait: bool = False) -> None:
    """Runs what is pending, then the closures that were added, in order. Raises what an operation raised."""
    global marked
    marked += 1
    run_pending(wait)
    waiting, _closures[:] = list(_closures), []
    for closure in waiting:
        closure()


def add_closure(closure: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """`closure(*args)` runs after the next sync."""
    _closures.append(lambda: closure(*args))


def is_eager() -> bool:
    """Whether each operation runs at once."""
    return state.registered and state.tape.eager


def set_eager(enabled: bool) -> None:
    """Whether each operation is to run at once; what is pending runs before."""
    if not state.registered:
        return
    run_pending()
    state.tape.eager = enabled


@contextmanager
def compiled(owner: Any = None, full_graph: bool = False, most_programs: int | None = None) -> Iterator[None]:
    """Operations of the block are one program. owner: the function that it belongs to, for `most_programs`.

    Raises RuntimeError if the block ran something before its end and `full_graph` is set, and if `owner` needed more
    different programs than `most_programs`.
    """
    was_eager = is_eager()
    set_eager(False)
    sync()
    before = metrics()
    try:
        yield
        inside = metrics().runs - before.runs
    finally:
        sync()
        set_eager(was_eager)
    if full_graph and inside:
        raise RuntimeError(
            f"torch_xla.compile(full_graph=True): {inside} program{'s' * (inside != 1)} ran before the end of the "
            "region; something in it needs a value (item, print, a branch on data)"
        )
    if most_programs is not None and owner is not None:
        _programs_of[owner] = _programs_of.get(owner, 0) + metrics().programs - before.programs
        if _programs_of[owner] > most_programs:
            raise RuntimeError(
                f"torch_xla.compile(max_different_graphs={most_programs}): {_programs_of[owner]} different programs so "
                "far; truecast.why_recompiled() says what differs"
            )

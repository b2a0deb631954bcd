"""Which policy holds where a call names none: the innermost `with` block, else the one set, else the environment's.

Imports its own package and settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike, fspath

from truecast import settings
from truecast.errors import NumericsError
from truecast.numerics.numerics import Numerics

Policy = str | PathLike[str] | Numerics

_IN_SCOPE: ContextVar[Numerics | None] = ContextVar("truecast_numerics", default=None)
_default: Numerics | None = None


def policy(named: Policy | None = None) -> Numerics:
    """The Numerics that `named` means: itself, a preset's name, a TOML file's path; None for the one in force.

    A string is a path if it ends in .toml or contains a path separator. Raises NumericsError for an unknown
    name, and for a file that is missing or malformed.
    """
    if named is None:
        named = in_force() or settings.default_numerics()
    if isinstance(named, Numerics):
        return named
    if not isinstance(named, str | PathLike):
        raise NumericsError(
            f"a {type(named).__name__} is no policy",
            values=f"numerics={named!r}",
            help="a preset's name, a TOML file's path, or a Numerics",
        )
    text = fspath(named)
    is_path = not isinstance(named, str) or text.endswith(".toml") or "/" in text or "\\" in text
    return Numerics.load(text) if is_path else Numerics.preset(text)


def chosen(named: Policy | None = None) -> Numerics | None:
    """As `policy`, but None where nobody chose one: no argument, no block, no set_numerics, no TRUECAST_NUMERICS."""
    if named is None and in_force() is None and not settings.names_numerics():
        return None
    return policy(named)


def in_force() -> Numerics | None:
    """The policy that a `with` block or set_numerics put in force; None for the environment's."""
    return _IN_SCOPE.get() or _default


@contextmanager
def numerics(named: Policy) -> Iterator[Numerics]:
    """Makes a policy hold within a `with` block, in this thread or task."""
    chosen = policy(named)
    token = _IN_SCOPE.set(chosen)
    try:
        yield chosen
    finally:
        _IN_SCOPE.reset(token)


def set_numerics(named: Policy | None) -> None:
    """Makes a policy hold in the whole process, outside of `with` blocks; None restores the environment's."""
    global _default
    _default = None if named is None else policy(named)

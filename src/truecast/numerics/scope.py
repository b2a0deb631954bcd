"""Which policy holds where a call names none: the innermost `with` block, else the one set, else the environment's.

Imports its own package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike, fspath

from truecast.errors import NumericsError
from truecast.numerics.environment import default_policy, named_policy, names_policy
from truecast.numerics.numerics import Numerics

Policy = str | PathLike[str] | Numerics

_IN_SCOPE: ContextVar[Numerics | None] = ContextVar("truecast_numerics", default=None)
_AUTOCAST: ContextVar[str | None] = ContextVar("truecast_autocast", default=None)
_default: Numerics | None = None


def policy(named: Policy | None = None) -> Numerics:
    """The Numerics that `named` means: itself, a preset's name, a TOML file's path; None for the one in force.

    A string is a path if it ends in .toml or contains a path separator. Raises NumericsError for an unknown
    name, and for a file that is missing or malformed.
    """
    if named is None:
        return in_force() or default_policy()
    if isinstance(named, Numerics):
        return named
    if not isinstance(named, str | PathLike):
        raise NumericsError(
            f"a {type(named).__name__} is no policy",
            values=f"numerics={named!r}",
            help="a preset's name, a TOML file's path, or a Numerics",
        )
    return named_policy(fspath(named), is_path=not isinstance(named, str))


def chosen(named: Policy | None = None) -> Numerics | None:
    """As `policy`, but None where nobody chose one: no argument, no block, no set_numerics, no variable."""
    if named is None and in_force() is None and not names_policy():
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


def autocast_lists() -> str:
    """The device type whose autocast lists hold: the policy's, unless a region says that it is another's."""
    return _AUTOCAST.get() or policy().autocast


def autocast_lists_of(device_type: str) -> Callable[[], None]:
    """Makes the autocast lists of a device type hold in this thread or task until what it returns is called."""
    token = _AUTOCAST.set(device_type)
    return lambda: _AUTOCAST.reset(token)


def set_numerics(named: Policy | None) -> None:
    """Makes a policy hold in the whole process, outside of `with` blocks; None restores the environment's."""
    global _default
    _default = None if named is None else policy(named)

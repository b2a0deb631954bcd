"""SCRIPT:FUNCTION, which `lower` and other commands take: runs the script, finds the function and its arguments.

SCRIPT is run with __name__ = "__truecast__". FUNCTION is called with the script's `example_inputs`.
"""

from __future__ import annotations

import contextlib
import inspect
import linecache
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from truecast.errors import TruecastError, UsageError

NumericsOption = Annotated[
    str | None, typer.Option("--numerics", "-n", metavar="NAME", help="A preset's name or a TOML file's path.")
]


def split(named: str) -> tuple[Path, str]:
    """SCRIPT:FUNCTION as a path and a name."""
    script, separator, name = named.rpartition(":")
    if not separator or not script or not name:
        raise UsageError(f"{named!r} does not name a function", help="SCRIPT:FUNCTION, for example train.py:step")
    if not os.path.isfile(script):  # of a path, is_file raises for a name that is too long
        raise UsageError("there is no such script", where=script)
    return Path(script), name


def load(path: Path, name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What `name` is in the script, and the arguments the script has for it."""
    return called(path, run_script(path), name)


def called(path: Path, module: dict[str, Any], name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What `name` is among the names of a script that was run, and the arguments the script has for it."""
    function = callable_named(path, module, name)
    example = module.get("example_inputs", ())
    if callable(example):
        with their_errors(path, f"example_inputs in {path} can't be made"):
            example = example()
    if not isinstance(example, tuple | dict):
        raise UsageError(
            f"example_inputs in {path} is a {type(example).__name__}",
            help="a tuple of arguments, a dict of keyword arguments, or a function that returns one of them",
        )
    args, kwargs = ((), example) if isinstance(example, dict) else (example, {})
    _require_fitting(path, name, function, args, kwargs)
    return function, args, kwargs


def callable_named(path: Path, module: dict[str, Any], name: str) -> Any:
    """What `name` is in the script. Raises UsageError for what is not there, or can't be called."""
    if name not in module:
        defined = [n for n, value in module.items() if callable(value) and not n.startswith("_")]
        raise UsageError(f"{path} has no {name!r}", help=f"it has {', '.join(defined) or 'nothing to call'}")
    if not callable(module[name]):
        raise UsageError(f"{name!r} in {path} can't be called", values=f"it is a {type(module[name]).__name__}")
    return module[name]


def _require_fitting(path: Path, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> None:
    """Raises UsageError where the function does not take the example inputs."""
    try:
        signature = inspect.signature(function if inspect.isclass(function) else getattr(function, "forward", function))
    except (TypeError, ValueError):  # a builtin without a signature: the call will tell
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"{name} in {path} can't be called with its example_inputs",
            values=str(error),
            help=f"give {path} example_inputs: a tuple of arguments, or a dict of keyword arguments, for {name}",
        ) from error


def run_script(path: Path) -> dict[str, Any]:
    """The script's names. Its folder comes first in sys.path, as `python SCRIPT` has it."""
    linecache.checkcache()  # what another run in this process read of its source may have changed
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv = [str(path)]
    with their_errors(path, f"{path} can't be run"):
        try:
            return runpy.run_path(str(path), run_name="__truecast__")
        except SystemExit as error:
            raise UsageError(f"{path} ended before anything could be called", values=f"exit({error.code})") from error


@contextlib.contextmanager
def their_errors(path: Path, what: str) -> Iterator[None]:
    """Turns an exception that came through the script's own lines into a UsageError that names the last of them."""
    try:
        yield
    except (TruecastError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        raise UsageError(
            what, where=_place(error, path), values=f"exit({error.code})", why="the script ended the process"
        ) from error
    except BaseException as error:  # the script may raise what is no Exception
        place = _place(error, path)
        if place is None:
            raise
        raise UsageError(what, where=place, values=f"{type(error).__name__}: {error}") from error


def _place(error: BaseException, path: Path) -> str | None:
    """The script's own line that an exception came through last; None if it came through none.

    The script itself where Python can't read it (null bytes have no line), and where an operation that a library
    called refuses its operands: the recorder notes on such an error that it is the program's.
    """
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}:{error.offset}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    if lines:
        return f"{path}:{lines[-1]}"
    unreadable = isinstance(error, SyntaxError) and error.filename is None
    return str(path) if unreadable or getattr(error, "__notes__", None) else None

"""Where a command's output goes, and what fits there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from truecast import settings
from truecast.errors import UsageError
from truecast.files import appearing


def write(text: str, output: Path | None) -> None:
    """To stdout, or to a file that appears whole or not at all."""
    try:
        if output is None:
            typer.echo(text)
            return
        with appearing(output) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(
            "can't write the output", where=output or "standard output", why=error.strerror or str(error)
        ) from error


def width() -> int:
    """The terminal's width; 0, which means unlimited, where the output is no terminal."""
    return os.get_terminal_size().columns if _is_terminal() else 0


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # there is none where it was closed: `truecast ... >&-`


def fit(line: str) -> str:
    most = width()
    return line if not most or len(line) <= most else line[: most - 1] + "…"


def colored() -> bool:
    return _is_terminal() and not settings.no_color()

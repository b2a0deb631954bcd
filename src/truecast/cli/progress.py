"""One line on the terminal while a script runs long: how many operations were seen, and for how many seconds.

Only on standard error, and only if that is a terminal. The script's own output stays as it is: the line is taken away
before the script writes, and is not drawn while the script's own last line is unfinished.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

AFTER = 1.0  # seconds before the line appears
_EVERY = 0.25


class ProgressLine:
    """Draws while its block runs. operations: how many were seen so far, asked from another thread."""

    def __init__(self, operations: Callable[[], int], console: Console | None = None) -> None:
        self._operations = operations
        self._console = console or Console(file=sys.stderr, highlight=False)  # not what stands in its place later
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._drawn = False
        self._unfinished = False
        self._thread: threading.Thread | None = None
        self._streams: list[tuple[str, Any]] = []

    def __enter__(self) -> ProgressLine:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            for name in ("stdout", "stderr"):
                stream = getattr(sys, name)
                if stream.isatty():
                    self._streams.append((name, stream))
                    setattr(sys, name, _Above(stream, self))
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        for name, stream in self._streams:
            setattr(sys, name, stream)
        self._clear()

    def _tick(self) -> None:
        started = time.monotonic()
        wait = AFTER
        while not self._ended.wait(wait):
            self._draw(time.monotonic() - started)
            wait = _EVERY

    def _draw(self, seconds: float) -> None:
        count = self._operations()
        text = f"{count:,} operation{'s' * (count != 1)} seen, {seconds:.0f} s"
        with self._lock:
            if not self._unfinished:
                self._clear()
                self._console.print(Text(text, "dim"), end="", no_wrap=True, overflow="ellipsis")
                self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
            self._drawn = False

    def write(self, stream: TextIO, text: str) -> int:
        """Writes what the script has to say, with the line out of the way."""
        if os.getpid() != self._process:  # a child that the script forked has no line, and perhaps a lock held forever
            return stream.write(text)
        with self._lock:
            self._clear()
            if text:
                self._unfinished = not text.endswith("\n")
            return stream.write(text)


class _Above:
    """A stream of the script's: `write` takes the line away first; all else is the stream's own."""

    def __init__(self, stream: TextIO, line: ProgressLine) -> None:
        self._stream, self._line = stream, line

    def write(self, text: str) -> int:
        return self._line.write(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

"""The line that a long run shows: on a terminal only, and never within the script's own output."""

from __future__ import annotations

import io
import os
import re
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from truecast import cli
from truecast.cli import progress
from truecast.cli.progress import ProgressLine


class Terminal:
    """A pseudo-terminal as stderr and stdout, and what was written to it."""

    def __init__(self) -> None:
        master, slave = os.openpty()
        self.stream = os.fdopen(slave, "w", buffering=1)
        self._master, self._parts = master, [b""]
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._master, 4096)
            except OSError:  # the other end is closed
                return
            self._parts.append(part)

    def text(self) -> str:
        self.stream.close()
        self._reader.join(5)
        return b"".join(self._parts).decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "AFTER", 0.05)
    monkeypatch.setattr(progress, "_EVERY", 0.02)
    return Terminal()


def shown(text: str) -> str:
    """What a terminal shows in the end: a carriage return and an erased line take back what was drawn."""
    return "\n".join(re.split(r"\r\x1b\[2K", line)[-1] for line in text.replace("\r\n", "\n").split("\n"))


def test_it_counts_and_goes_away(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)  # in the test: capturing sets it anew before each phase
    with ProgressLine(lambda: 1234):
        time.sleep(0.2)
    text = terminal.text()
    assert "1,234 operations seen, 0 s" in text
    assert shown(text) == ""


def test_a_short_run_shows_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    monkeypatch.setattr(progress, "AFTER", 60)
    with ProgressLine(lambda: 1):
        pass
    assert terminal.text() == ""


def test_the_scripts_output_stays_as_it_is(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    ours = sys.stdout
    with ProgressLine(lambda: 1):
        for number in range(3):
            time.sleep(0.1)
            print("step", number)
        print("unfinished", end="")
        drawn_before = "seen" in "".join(p.decode() for p in terminal._parts)
        time.sleep(0.1)
        print(" line")
    assert sys.stdout is ours and drawn_before
    text = terminal.text()
    assert shown(text) == "step 0\nstep 1\nstep 2\nunfinished line\n"
    assert "unfinished line" in text, "nothing is drawn within a line"


@pytest.mark.parametrize("console", [Console(file=io.StringIO()), Console(file=io.StringIO(), force_terminal=True)])
def test_only_a_terminal_gets_it(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    with ProgressLine(lambda: 7, console):
        time.sleep(0.1)
    assert isinstance(console.file, io.StringIO)
    assert ("7 operations seen" in console.file.getvalue()) is console.is_terminal


def test_the_command_shows_it(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("argv", "path"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import time, torch\nx = torch.ones(2) + 1\ntime.sleep(0.3)\n")
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    assert cli.run(["explain", "train.py"]) == 0
    text = terminal.text()
    assert "2 operations seen" in text and shown(text) == ""

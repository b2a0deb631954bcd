"""A file that a person names appears whole or not at all; what is no regular file is written to, never replaced."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from truecast.files import appearing


def test_the_file_appears_when_the_block_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with appearing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), appearing(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    with appearing(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    """As for a device: whoever may write to /dev would replace /dev/stdout by a file otherwise."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    with appearing(pipe) as temporary:
        temporary.write_text("through")
    reader.join(10)
    assert read == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_directory_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), appearing(tmp_path):
        raise AssertionError("the block ran")
    assert os.listdir(tmp_path) == []


def test_a_link_to_an_open_pipe_is_written_to(tmp_path: Path) -> None:
    """/dev/stdout is one."""
    reading, writing = os.pipe()
    link = tmp_path / "stdout"
    link.symlink_to(f"/proc/self/fd/{writing}")
    if not link.exists():
        pytest.skip("no /proc here")
    with appearing(link) as temporary:
        temporary.write_text("through")
    os.close(writing)
    assert os.read(reading, 100) == b"through"
    os.close(reading)

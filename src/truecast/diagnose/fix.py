"""The edits that mend findings, as changed files and a unified diff. Nothing is written here.

An edit replaces one source line by itself with one cast in it, so the rest of the file, its formatting and line ends,
stays byte for byte.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from truecast.diagnose.finding import Edit, Finding


@dataclass(frozen=True, slots=True)
class FileFix:
    """One file before and after, and the findings that the change mends."""

    path: Path
    before: bytes
    after: bytes
    mends: tuple[Finding, ...]

    def diff(self) -> str:
        """The change as a unified diff, with paths relative to the current folder."""
        name = os.path.relpath(self.path)
        name = str(self.path) if name.startswith("..") else name
        old, new = (text.decode().splitlines(keepends=True) for text in (self.before, self.after))
        return "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))


def is_the_users(path: Path) -> bool:
    """Whether a file is the program's own to change: not one of an installed package."""
    return not {"site-packages", "dist-packages"} & set(path.parts)


def fixes(findings: Iterable[Finding]) -> tuple[tuple[FileFix, ...], tuple[Finding, ...]]:
    """The files to change, and the findings that no edit mends. Of two edits of one line the first is made: the other
    finding is looked at again after it."""
    edits: dict[Path, dict[int, tuple[Edit, Finding]]] = {}
    left: list[Finding] = []
    for finding in findings:
        edit = finding.edit
        path = None if edit is None else Path(edit.file)
        if edit is None or path is None or not is_the_users(path) or not _is_text(path):
            left.append(finding)
            continue
        lines = edits.setdefault(path, {})
        if edit.line in lines and lines[edit.line][0] != edit:
            left.append(finding)
        else:
            lines.setdefault(edit.line, (edit, finding))
    return tuple(_changed(path, lines) for path, lines in edits.items()), tuple(left)


def _is_text(path: Path) -> bool:
    """Whether a file is there and can be changed by lines of text: in UTF-8."""
    if not path.is_file():
        return False
    try:
        path.read_bytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def _changed(path: Path, edits: dict[int, tuple[Edit, Finding]]) -> FileFix:
    before = path.read_bytes()
    lines = before.decode().splitlines(keepends=True)
    for number, (edit, _) in edits.items():
        old = lines[number - 1]
        ending = old[len(old.rstrip("\r\n")) :]
        lines[number - 1] = edit.text + ending
    return FileFix(path, before, "".join(lines).encode(), tuple(finding for _, finding in edits.values()))

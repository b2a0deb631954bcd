"""Opens a program's text: finds out what it is, and says in words what it is not."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from truecast.diagnose.hlo import hlo_text, mlir_text
from truecast.diagnose.hlo.module import Module
from truecast.errors import UsageError

_HLO = re.compile(r"\s*(HloModule\b|ENTRY\b|%?[\w.\-]+ \(.*\) -> .*\{\s*$)")
_MLIR = re.compile(r'\s*(#[\w.]+ = |module\b|"?builtin\.module|func\.func|"?func\.func|!\w+ = )')
_SAVED = re.compile(r"\[\w+\]\s*$")
_HEAD = 64 << 10
_HELP = "the text of HLO or StableHLO: XLA_FLAGS=--xla_dump_to=DIR, jax's lower().as_text(), _get_xla_tensors_hlo"


def read_text(text: str, name: str = "the text") -> list[Module]:
    """The modules in a text. Raises UsageError if there is none."""
    return _read(io.StringIO(text), name)


def read_path(path: Path) -> list[Module]:
    """The modules in a file, read line by line. Raises UsageError for a file that can't be read or holds none."""
    try:
        with io.BufferedReader(io.FileIO(path), _HEAD) as file:  # opened once, since a pipe can't be read again
            _require_text(file.peek(_HEAD), str(path))
            return _read(io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace"), str(path))
    except OSError as error:
        raise UsageError("can't read the program", where=path, why=error.strerror or str(error)) from error


def _require_text(head: bytes, name: str) -> None:
    if head.startswith(b"ML\xefR"):
        what, help = "this is MLIR bytecode, not text", "stablehlo-translate --deserialize prints it as text"
    elif b"\0" in head:
        what, help = "this is a binary file, not text", _HELP
    else:
        return
    raise UsageError(what, where=name, values=f"it begins with {head[:8]!r}", help=help)


def _read(lines: Iterable[str], name: str) -> list[Module]:
    head: list[str] = []
    remaining = iter(lines)
    while (line := next(remaining, None)) is not None:
        if _SAVED.match(line) and not any(map(str.strip, head)):  # torch_xla's XLA_SAVE_TENSORS_FILE
            remaining = _graphs(itertools.chain(head, [line], remaining))
            head.clear()
            continue
        head.append(line)
        if not line.strip() or line.lstrip().startswith("//"):
            continue
        if _HLO.match(line):
            return hlo_text.read(itertools.chain(head, remaining))
        if _MLIR.match(line):
            return mlir_text.read(itertools.chain(head, remaining))
        break
    if not any(line.strip() for line in head):
        raise UsageError("there is no program", where=name, values="it is empty", help=_HELP)
    first = head[-1].strip()
    raise UsageError(
        "this is neither HLO nor StableHLO",
        where=f"{name}:{len(head)}:1",
        values=f"the line is {first[:60] + '...' * (len(first) > 60)!r}",
        help=_HELP,
    )


def _graphs(lines: Iterable[str]) -> Iterator[str]:
    """The lines between the marks that torch_xla sets around each graph; an empty one for each other line."""
    inside = False
    for line in lines:
        if line.startswith(("## BEGIN_GRAPH", "## END_GRAPH")):
            inside = line.startswith("## BEGIN")
            yield "\n"
        else:
            yield line if inside and not line.startswith("Graph Hash:") else "\n"

"""The lines that compute differently without a global downcast, as a table that a person reads and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from truecast.diagnose.migration import Line
from truecast.diagnose.source import short
from truecast.dtypes import DType
from truecast.report.text import file_name

_SOURCE = 60  # columns of a source line, at most


def render(variable: str, lines: tuple[Line, ...], width: int = 0) -> str:
    """One row a source line, under its file's name: the line, its dtypes then and now, how many operations."""
    if not lines:
        return f"line by line: nothing computes otherwise than under {variable}=1"
    dtypes = {line: f"{_names(line.then)} -> {_names(line.now)}" for line in lines}
    widest = max(map(len, dtypes.values()))
    room = min(_SOURCE, max(width - widest - 50, 20)) if width else _SOURCE
    texts = {line: short(line.site.text.strip(), room) for line in lines}
    longest = max(map(len, texts.values()))
    rows = [f"line by line: the dtype under {variable}=1 -> now, for how many operations, because of what"]
    file = ""
    for line in lines:
        if line.site.file != file:
            file = line.site.file
            rows.append(f"  {file_name(file)}")
        count = f"{line.operations} operation{'s' * (line.operations != 1)}"
        because = ", ".join(line.because)
        rows.append(f"  {line.site.line:5} | {texts[line]:<{longest}}  {dtypes[line]:<{widest}}  {count:<14} {because}")
    return "\n".join(rows)


def document(variable: str, lines: tuple[Line, ...]) -> dict[str, Any]:
    """The same as plain dicts and lists."""
    return {
        "variable": variable,
        "lines": [
            {
                "file": line.site.file,
                "line": line.site.line,
                "text": line.site.text.strip(),
                "operations": line.operations,
                "then": [str(dtype) for dtype in line.then],
                "now": [str(dtype) for dtype in line.now],
                "because": list(line.because),
            }
            for line in lines
        ],
    }


def _names(dtypes: Iterable[DType]) -> str:
    return ", ".join(map(str, dtypes))

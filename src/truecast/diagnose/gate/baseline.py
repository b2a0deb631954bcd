"""A gate's baseline as a small text file: TOML, one line of text for each line of source, in a stable order.

It is reviewed like source: a change of precision shows as a few changed lines. `rows` says how many lines it has, so
that a file which was cut off between two of them is told from a whole one.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from truecast.diagnose.gate.figures import Drift, Figures, Line
from truecast.errors import UsageError
from truecast.files import appearing

SCHEMA = 1
_HEAD: dict[str, type] = {"program": str, "numerics": str, "plan": str}
_DRIFT: dict[str, type] = {"reference": str, "rounding": str, "error": float, "honest": float}
_ROW: dict[str, type] = {
    **{"file": str, "function": str, "text": str, "op": str, "operations": int},
    **{"compute": str, "accumulate": str, "rule": str, "converts": int, "bytes": int, "narrow_sums": int},
    "float64": int,
}
_TITLE = "# What `truecast gate` holds this program to. --update rewrites it: review the difference."


def render(figures: Figures, version: str) -> str:
    """The text of a baseline. version: truecast's."""
    lines = [_TITLE, f"schema = {SCHEMA}", f"truecast = {_quoted(version)}"]
    lines += [f"{name} = {_quoted(getattr(figures, name))}" for name in _HEAD]
    lines += [f"rows = {len(figures.lines)}"]
    if figures.drift is not None:
        lines += ["", "[drift]", *(f"{name} = {_quoted(getattr(figures.drift, name))}" for name in _DRIFT)]
    for line in figures.lines:
        fields = ((name, getattr(line, name)) for name in _ROW)
        if not lines[-1].startswith("  {"):
            lines += ["", "[lines]", "all = ["]
        lines.append("  { " + ", ".join(f"{name} = {_quoted(value)}" for name, value in fields if value) + " },")
    return "\n".join([*lines, *["]"] * bool(figures.lines)]) + "\n"


def write(path: Path, figures: Figures, version: str) -> None:
    """Writes a baseline, or leaves the file as it was. Raises UsageError where it can't be written."""
    try:
        with appearing(path) as temporary:
            temporary.write_text(render(figures, version), "utf-8")
    except OSError as error:
        raise UsageError("the baseline can't be written", where=path, why=error.strerror or str(error)) from error


def read(path: Path, version: str) -> Figures:
    """The figures of a baseline. Raises UsageError for a file that is missing, damaged, or of another version."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        raise UsageError(
            "there is no baseline", where=path, help="--update measures the program and writes it; then commit it"
        ) from error
    except OSError as error:
        raise UsageError("the baseline can't be read", where=path, why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _refused(path, f"it is no text: byte {error.start} is not UTF-8") from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _refused(path, f"it is no whole TOML text: {error}") from error
    if data.get("schema") != SCHEMA:
        raise _refused(path, f"it has schema {data.get('schema')!r}, this version reads {SCHEMA}")
    if data.get("truecast") != version:
        raise _refused(path, f"it was written by truecast {data.get('truecast')}, this is {version}")
    head = _fields(data, _HEAD, path, "the baseline")
    rows = data.get("lines", {}).get("all", []) if isinstance(data.get("lines", {}), dict) else None
    if not isinstance(rows, list) or data.get("rows") != len(rows):
        raise _refused(path, f"it was cut off: it has {len(rows or ())} of {data.get('rows')} lines")
    empty = {name: kind() for name, kind in _ROW.items()}
    lines = tuple(Line(**_fields({**empty, **row}, _ROW, path, "a line")) for row in rows)
    drift = Drift(**_fields(data["drift"], _DRIFT, path, "[drift]")) if "drift" in data else None
    return Figures(**head, lines=lines, drift=drift)


def _fields(table: Any, kinds: dict[str, type], path: Path, what: str) -> dict[str, Any]:
    """The fields of a table, each of its type, and no others."""
    if not isinstance(table, dict):
        raise _refused(path, f"{what} is no table")
    for name, kind in kinds.items():
        if type(table.get(name)) is not kind:
            raise _refused(path, f"{what} has no {name}")
    return {name: table[name] for name in kinds}


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        "this baseline can't be used", where=path, why=why, help="--update writes a new one; review the difference"
    )


def _quoted(value: str | int | float) -> str:
    """A value as TOML. A JSON string is a TOML basic string but for DEL, which TOML wants escaped."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)

"""What a search has measured so far, in a file: an interrupted bisection goes on where it stopped.

The values are kept by the fingerprint of the Plan they were measured under, so they hold for any bound, level and
direction of the same problem. `problem` names what must be the same: the two policies on the Graph, the metric, the
inputs and weights.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from truecast.errors import UsageError
from truecast.files import appearing

SCHEMA = 1
Known = dict[str, list[float]]


def read(path: Path, problem: str) -> Known:
    """What was measured of this problem; nothing where there is no file. Raises UsageError for any other file."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise _refused(path, "it is no file")
    try:
        state = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError("the state can't be read", where=path, why=error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"it is no whole JSON text: {error}") from error
    if not isinstance(state, dict) or "schema" not in state:
        raise _refused(path, "it is no state of a bisection")
    if state["schema"] != SCHEMA:
        raise _refused(path, f"it has schema {state['schema']!r}, this version writes {SCHEMA}")
    if state.get("problem") != problem:
        raise _refused(
            path, "it is of another problem: the program, a policy, the metric, the inputs or the weights differ"
        )
    known = state.get("values")
    if not isinstance(known, dict) or not all(map(_is_measured, known.values())):
        raise _refused(path, "its values are not lists of numbers")
    return known


def write(path: Path, problem: str, known: Known) -> None:
    """Writes the file whole, or leaves it as it was. Raises UsageError where it can't be written."""
    state = {"schema": SCHEMA, "problem": problem, "values": known}
    try:
        with appearing(path) as temporary:
            temporary.write_text(json.dumps(state, indent=1) + "\n", "utf-8")
    except OSError as error:
        raise UsageError("the state can't be written", where=path, why=error.strerror or str(error)) from error


def _is_measured(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) in (int, float) for value in values)


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        "this state can't be resumed", where=path, why=why, help="name another file, or remove this one to start anew"
    )

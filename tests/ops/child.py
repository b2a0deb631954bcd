"""What the workers of all sweeps do: read a name a line from stdin, answer with one JSON record a line for each column
and outcome, then `{"done": true}`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def serve(
    table: Mapping[str, Any],
    outcomes: Callable[[Any, str, int], Iterable[tuple[str, str]]],
    columns: list[str],
    limit: int,
) -> None:
    """outcomes: (outcome, detail) for each sample of an entry of the table in one column."""
    for line in sys.stdin:
        name = line.strip()
        if name == os.environ.get("TRUECAST_SWEEP_DIES_AT"):  # how the sweep's own test sees a crash
            os.kill(os.getpid(), signal.SIGSEGV)
        for column in columns:
            tally: dict[tuple[str, str], int] = {}
            for outcome, detail in outcomes(table[name], column, limit):
                tally[outcome, detail] = tally.get((outcome, detail), 0) + 1
            for (outcome, detail), count in tally.items():
                record = {"operator": name, "column": column, "outcome": outcome, "count": count, "detail": detail}
                print(json.dumps(record), flush=True)
        print(json.dumps({"done": True}), flush=True)

"""What the workers of all sweeps do: read a name a line from stdin, answer with one JSON record a line for each column
and outcome, then `{"done": true}`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """What became of one sample. fallback: what `TRUECAST_FALLBACK=error` would have refused it for, "" for nothing."""

    outcome: str
    detail: str = ""
    fallback: str = ""


def serve(
    table: Mapping[str, Any],
    outcomes: Callable[[Any, str, int], Iterable[tuple[str, ...]]],
    columns: list[str],
    limit: int,
) -> None:
    """outcomes: an Outcome, or the first parts of one, for each sample of an entry of the table in one column."""
    for line in sys.stdin:
        name = line.strip()
        if name == os.environ.get("TRUECAST_SWEEP_DIES_AT"):  # how the sweep's own test sees a crash
            os.kill(os.getpid(), signal.SIGSEGV)
        for column in columns:
            for outcome, count in Counter(Outcome(*o) for o in outcomes(table[name], column, limit)).items():
                print(json.dumps({"operator": name, "column": column, "count": count, **outcome._asdict()}), flush=True)
        print(json.dumps({"done": True}), flush=True)

"""`python -m tests.ops.sweep`: PyTorch's OpInfo database through `tc.lower(...).compile()`, judged against eager.

Children do the work, so that no sample can kill the sweep: a child that dies is counted as a crash of the
operator it was at, and the rest of its list goes to a new one. Writes docs/status.md. With --device: the same
database on the pjrt device, non-contiguous, in-place and `out=` forms included, and PyTorch's modules and
optimizers; writes docs/status-device.md. With --json what is found is written as it comes, and --resume goes on
from there: only what the file doesn't have yet is run.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.ops.reasons import reason

ROOT = Path(__file__).parents[2]
COLUMNS = ("float32", "bfloat16", "float16", "int64", "bool", "complex64", "gradient")
DEVICE_COLUMNS = ("float32", "bfloat16", "int64", "bool")
OUTCOMES = ("pass", "wrong dtype", "wrong value", "unsupported", "error", "crash")


@dataclass
class Record:
    """How many samples of one operator and column had one outcome and detail. fallback: the operations that the CPU ran
    for want of a lowering, which `TRUECAST_FALLBACK=error` refuses."""

    operator: str
    column: str
    outcome: str
    count: int
    detail: str = ""
    fallback: str = ""


def without_fallback(records: Iterable[Record]) -> list[Record]:
    """What `TRUECAST_FALLBACK=error` makes of samples that ran with the CPU's help."""
    return [
        replace(r, outcome="unsupported", detail=f"{r.fallback} has no lowering for this form") if r.fallback else r
        for r in records
    ]


def run_children(
    operators: list[str],
    columns: tuple[str, ...],
    limit: int,
    jobs: int,
    patience: float,
    worker: str = "sweep_child",
    fallback: str = "cpu",
    found_for: Callable[[str, list[Record]], None] = lambda name, records: None,
) -> list[Record]:
    """Every record of a sweep over `operators`; `patience` is the time in seconds that one operator may take.

    worker: the module under tests.ops that does the work. fallback: what TRUECAST_FALLBACK says to it. found_for: told
    of each operator's records when it is done.
    """
    work: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in operators:
        work.put(name)
    records: list[Record] = []
    lock = threading.Lock()
    done = 0

    def serve() -> None:
        nonlocal done
        child: subprocess.Popen[str] | None = None
        served = 0
        while True:
            try:
                name = work.get_nowait()
            except queue.Empty:
                break
            if child is None or served >= 10_000:  # a fresh process now and then, so that memory stays bounded
                if child is not None:
                    child.kill()
                    child.wait()
                child, served = _spawn(worker, columns, limit, fallback), 0
            found = _ask(child, name, patience)
            served += 50 + sum(r.count for r in found)
            if child.poll() is not None:
                child = None
            with lock:
                records.extend(found)
                found_for(name, found)
                done += 1
                if sys.stderr.isatty() or done % 25 == 0:
                    print(
                        f"\r{done}/{len(operators)} {name:60.60}",
                        end="" if sys.stderr.isatty() else "\n",
                        file=sys.stderr,
                    )
        if child is not None:
            child.kill()
            child.wait()

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return records


def _spawn(worker: str, columns: tuple[str, ...], limit: int, fallback: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-m", f"tests.ops.{worker}", ",".join(columns), str(limit)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRUECAST_CACHE": "off", "TRUECAST_FALLBACK": fallback}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _ask(child: subprocess.Popen[str], name: str, patience: float) -> list[Record]:
    assert child.stdin is not None and child.stdout is not None
    found: list[Record] = []
    timer = threading.Timer(patience, child.kill)
    timer.start()
    began = time.monotonic()
    try:
        child.stdin.write(name + "\n")
        child.stdin.flush()
        for line in child.stdout:
            if not line.startswith("{"):
                continue
            message = json.loads(line)
            if message.get("done"):
                return found
            found.append(Record(**message))
    except BrokenPipeError:
        pass  # the child died between two operators; the wait below says how
    finally:
        timer.cancel()
    child.wait()
    if time.monotonic() - began >= patience:
        found.append(Record(name, "all", "error", 1, f"no answer in {patience:.0f} s"))
    else:
        found.append(Record(name, "all", "crash", 1, f"the process died with status {child.returncode}"))
    return found


def summary(records: list[Record]) -> dict[str, collections.Counter[str]]:
    """Samples by column and outcome."""
    table: dict[str, collections.Counter[str]] = {column: collections.Counter() for column in COLUMNS}
    for record in records:
        table.setdefault(record.column, collections.Counter())[record.outcome] += record.count
    return {column: counts for column, counts in table.items() if counts}


def summary_table(records: list[Record]) -> list[str]:
    lines = [
        "| column | samples | " + " | ".join(OUTCOMES) + " | passing |",
        "|---|---" * 1 + "|---" * (len(OUTCOMES) + 1) + "|",
    ]
    for column, counts in summary(records).items():
        total = counts.total()
        cells = " | ".join(str(counts[outcome]) for outcome in OUTCOMES)
        lines.append(f"| {column} | {total} | {cells} | {100 * counts['pass'] / total:.1f}% |")
    return lines


def failures(records: list[Record], heading: str) -> list[str]:
    """Everything wrong one by one, then what is unsupported by reason."""
    lines = []
    for outcome in ("crash", "wrong dtype", "wrong value", "error"):
        chosen = [r for r in records if r.outcome == outcome]
        if chosen:
            lines += ["", f"{heading} {outcome.capitalize()}", ""]
            for r in sorted(chosen, key=lambda r: (r.operator, r.column)):
                why = f". {reason(r.operator, r.column)}" if outcome == "wrong value" else ""
                lines.append(f"- `{r.operator}` {r.column} ({r.count}): {r.detail}{why}")
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    for record in records:
        if record.outcome == "unsupported":
            reasons[record.detail].append(f"`{record.operator}` {record.column}")
    if reasons:
        lines += ["", f"{heading} Unsupported, by reason", ""]
        unlike = {cause: sorted(set(where)) for cause, where in reasons.items()}
        for cause, where in sorted(unlike.items(), key=lambda item: -len(item[1])):
            shown = ", ".join(where[:6]) + (f" and {len(where) - 6} more" if len(where) > 6 else "")
            lines.append(f"- {cause}: {shown}")
    return lines


def markdown(records: list[Record], limit: int) -> str:
    """docs/status.md: the summary, everything wrong one by one, and operator x column."""
    lines = [
        "# What runs",
        "",
        "PyTorch's OpInfo database through `tc.lower(...).compile()` under the numerics `eager`, judged against",
        f"PyTorch eager on the CPU; at most {limit} samples an operator and dtype. Made by",
        "`python -m tests.ops.sweep`. The same on the pjrt device: [status-device.md](status-device.md).",
        "",
        *summary_table(records),
        *failures(records, "##"),
        "",
        "## Operator by column",
        "",
        *cells(records, COLUMNS),
    ]
    return "\n".join(lines) + "\n"


def cells(records: list[Record], columns: tuple[str, ...]) -> list[str]:
    """A table of what passes, operator by column."""
    lines = ["| operator | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    by_cell: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for record in records:
        by_cell[record.operator, record.column][record.outcome] += record.count
    for operator in sorted({r.operator for r in records}):
        row = []
        for column in columns:
            counts = by_cell.get((operator, column)) or by_cell.get((operator, "all"))
            row.append("" if not counts else f"{counts['pass']}/{counts.total()}")
        lines.append(f"| {operator} | " + " | ".join(row) + " |")
    return lines


# The parts of a sweep, by key: the worker and the setting of TRUECAST_FALLBACK.
PARTS = {
    "database": ("sweep_child", "cpu"),
    "operators": ("device_child", "cpu"),
    "training": ("training_child", "error"),
}
DEVICE_PARTS = ("operators", "training")


def device_markdown(found: dict[str, list[Record]], limit: int, notes: Sequence[str] = ()) -> str:
    """docs/status-device.md: for each part the summary and everything that does not pass. notes: what was run otherwise
    than `limit` says."""
    lines = [
        "# What runs on the pjrt device",
        "",
        "PyTorch's OpInfo database on tensors of the device under the numerics `eager`, judged against eager on the",
        f"CPU: {f'at most {limit}' if limit else 'all'} samples of an operator and dtype, each as it is, with",
        "non-contiguous tensors, in place, and with `out=`, where the operator has the form and eager takes the sample",
        "so. Then PyTorch's databases of modules (output and gradients, training and evaluation) and of optimizers",
        f"(three steps), {f'at most {2 * limit}' if limit else 'all'} samples each. Made by",
        f"`python -m tests.ops.sweep --device --limit {limit}`.",
    ]
    for note in notes:
        lines += ["", note]
    strict = without_fallback(found["operators"])
    for heading, records in (
        ("With the CPU for what has no lowering", found["operators"]),
        ("TRUECAST_FALLBACK=error", strict),
        ("Modules and optimizers, TRUECAST_FALLBACK=error", found["training"]),
    ):
        lines += ["", f"## {heading}", "", *summary_table(records), *failures(records, "###")]
    lines += ["", "## Operator by column, without the CPU", "", *cells(strict, DEVICE_COLUMNS)]
    return "\n".join(lines) + "\n"


class Journal:
    """A sweep's records in a file, a JSON object for each operator that is done, written as they come; what was there
    before is kept if the sweep goes on from it.

    limits: at most how many samples of it were run, by part and operator. commits: of the sources that ran.
    """

    def __init__(self, path: Path | None, *, resume: bool, limit: int = 0) -> None:
        self.path, self.limit, self.commit = path, limit, _commit()
        self.limits: dict[str, dict[str, int]] = collections.defaultdict(dict)
        self.commits: set[str] = set()
        self.found: dict[str, dict[str, list[Record]]] = collections.defaultdict(dict)
        if path is not None and resume and path.exists():
            for line in path.read_text().splitlines():
                self._take(json.loads(line))
        elif path is not None:
            path.write_text("")

    def _take(self, entry: dict[str, Any]) -> None:
        part, operator = entry["part"], entry["operator"]
        self.found[part][operator] = [Record(**r) for r in entry["records"]]  # a later line stands for an earlier one
        self.limits[part][operator] = entry["limit"]
        self.commits.add(entry["commit"])

    def add(self, part: str, operator: str, records: list[Record]) -> None:
        entry = {
            "part": part,
            "operator": operator,
            "limit": self.limit,
            "commit": self.commit,
            "records": [asdict(r) for r in records],
        }
        self._take(entry)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def records(self, part: str, operators: Iterable[str]) -> list[Record]:
        return [record for name in operators for record in self.found[part].get(name, ())]

    def remaining(self, part: str, operators: Iterable[str]) -> list[str]:
        """Those that have not been run with as many samples as this sweep takes."""
        return [name for name in operators if self.limits[part].get(name) != self.limit]

    def notes(self, part: str, operators: Iterable[str]) -> list[str]:
        """What was run otherwise than with as many samples as this sweep takes."""
        others: dict[int, list[str]] = collections.defaultdict(list)
        for name in self.remaining(part, operators):
            others[self.limits[part].get(name, -1)].append(f"`{name}`")
        return [
            f"{'Not run' if limit < 0 else f'With at most {limit} samples'}: {', '.join(names)}."
            for limit, names in sorted(others.items(), reverse=True)
        ]


def _commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or "unknown"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", action="store_true", help="on the pjrt device, with and without the CPU fallback")
    parser.add_argument("--only", default="", help="operators whose name contains one of these, comma separated")
    parser.add_argument("--columns", default="", help="comma separated; all without it")
    parser.add_argument("--limit", type=int, default=12, help="samples an operator and dtype; 0 for all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--patience", type=float, default=240.0, help="seconds that one operator may take")
    parser.add_argument("--output", type=Path, help="the report; that under docs/ for a whole sweep, none otherwise")
    parser.add_argument("--json", type=Path, help="every operator's records, one JSON object a line")
    parser.add_argument("--resume", action="store_true", help="keep what --json has, run what it doesn't have")
    parser.add_argument("--report", action="store_true", help="with --resume: run nothing, report what --json has")
    parser.add_argument("--part", choices=DEVICE_PARTS, help="with --device: only this one")
    options = parser.parse_args(arguments)

    from tests.ops import samples

    every = DEVICE_COLUMNS if options.device else COLUMNS
    columns = tuple(options.columns.split(",")) if options.columns else every
    whole = not options.only and columns == every and options.part is None
    parts = ((options.part,) if options.part else DEVICE_PARTS) if options.device else ("database",)
    journal = Journal(options.json, resume=options.resume, limit=options.limit)
    found: dict[str, list[Record]] = {}
    notes: list[str] = []
    for part in parts:
        worker, fallback = PARTS[part]
        training = part == "training"
        table = samples.training_table() if training else samples.operators()
        chosen = [name for name in table if _is_chosen(name, options.only)]
        remaining = [] if options.report else journal.remaining(part, chosen)
        run_children(
            remaining if training else samples.smallest_first(remaining),
            tuple(c for c in columns if not training or c in ("float32", "bfloat16")),
            2 * options.limit if training else options.limit,
            options.jobs,
            options.patience,
            worker=worker,
            fallback=fallback,
            found_for=lambda name, records, part=part: journal.add(part, name, records),
        )
        found[part] = journal.records(part, chosen)
        notes += journal.notes(part, chosen)

    notes.append(f"Run at {', '.join(sorted(journal.commits))}.")
    output = options.output or (ROOT / "docs" / ("status-device.md" if options.device else "status.md"))
    if options.output or whole:
        limit = options.limit
        text = device_markdown(found, limit, notes) if options.device else markdown(found["database"], limit)
        output.write_text(text)
    exact = samples.elementwise_movement_or_indexing() if options.device else samples.elementwise_or_reduction()
    return _printed(found, exact, bool(options.only))


def _printed(found: dict[str, list[Record]], exact: frozenset[str], in_detail: bool) -> int:
    """Prints the summary and what is not allowed; the exit status."""
    records = [record for some in found.values() for record in some]
    shown = found if "operators" not in found else {**found, "strict": without_fallback(found["operators"])}
    for part, some in shown.items():
        for column, counts in summary(some).items():
            total = counts.total()
            print(
                f"{part:10}{column:10} {total:6} samples  "
                + "  ".join(f"{o} {counts[o]}" for o in OUTCOMES)
                + f"  = {100 * counts['pass'] / total:.1f}%"
            )
    bad = [r for r in records if r.outcome in ("crash", "wrong dtype")]
    bad += [r for r in records if r.outcome == "wrong value" and r.operator in exact]
    for record in bad:
        print(f"not allowed: {record.outcome} {record.operator} {record.column} x{record.count}: {record.detail}")
    if in_detail:
        for record in records:
            if record.outcome != "pass":
                print(f"{record.outcome:12} {record.operator} {record.column} x{record.count}: {record.detail}")
    return 1 if bad else 0


def _is_chosen(name: str, only: str) -> bool:
    """Whether the name contains one of the comma-separated parts; with none, every name is chosen."""
    return not only or any(part in name for part in only.split(","))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())

"""`truecast explain --fake` on training steps of full-size models, and on 100,000 operations on real tensors: time,
peak memory and findings, each in a process of its own. Writes docs/evidence/full-size.md; the bounds are 60 s and 4 GB.

    python bench/full_size.py
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "examples" / "full_size"
SECONDS, GIGABYTES = 60.0, 4.0
# The command's options, script and arguments, the codes of the errors and warnings, and what the table calls it.
RUNS = (
    (("--fake", "llama_70b.py"), ["TC501"], "Llama 3.1 70B"),
    (("--fake", "llama_70b.py", "40"), ["TC101", "TC501"], "the same, a float32 gate after layer 40"),
    (("--fake", "mixtral_8x22b.py"), ["TC501"], "Mixtral 8x22B"),
    (("--fake", "wan_14b.py"), ["TC501"], "Wan 2.2 A14B, 81 frames of 480 x 832"),
    (("many_operations.py",), [], "100,000 operations on small real tensors"),
)
PAGE = """\
# Full-size models on fake tensors

`python bench/full_size.py`: `truecast explain --fake` on a training step (forward, backward, fused AdamW) in bfloat16,
with the configurations of the published models (`examples/full_size/`), each in a process of its own, on {cores} cores.
Time is the whole command's, imports included, on one core of a machine that does other work as well; memory is the
process's peak. The bounds are {seconds:.0f} s of processor time and {gigabytes:.0f} GB.

| model | operations | time | processor time | peak memory | findings |
|---|---|---|---|---|---|
{rows}

The parameters are bfloat16 without a float32 copy, which TC501 says of each. The gate's error is one finding: it names
the gate's line as the origin, and counts every product in the layers after it that refuses what it gets. The last row
is one step (forward and backward) without `--fake`. Remarks (severity info) are left out.
"""


@dataclass(frozen=True)
class Measured:
    """One run: seconds of the clock and of the processor (the bound's, since other work on the machine takes the
    clock's), peak resident memory in GB (1000^3 bytes), and the report."""

    clock: float
    seconds: float
    gigabytes: float
    report: dict[str, object]

    @property
    def codes(self) -> list[str]:
        return [f["code"] for f in self.report["findings"] if f["severity"] != "info"]


def measure(arguments: tuple[str, ...]) -> Measured:
    """Runs `truecast explain` on one of the scripts."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        program = "from truecast.cli import main; main()"
        options = ["explain", "--fail-on", "never", "--json", str(report)]
        given = [str(SCRIPTS / a) if a.endswith(".py") else a for a in arguments]
        command = [sys.executable, "-c", program, *options, *given]
        start = time.perf_counter()
        child = os.posix_spawn(sys.executable, command, os.environ)
        _, status, usage = os.wait4(child, 0)
        clock = time.perf_counter() - start
        if status:
            sys.exit(f"truecast explain {' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
        seconds = usage.ru_utime + usage.ru_stime
        return Measured(clock, seconds, usage.ru_maxrss * 1024 / 1e9, json.loads(report.read_text()))


def main() -> None:
    rows, over = [], []
    for arguments, expected, name in RUNS:
        found = measure(arguments)
        operations = found.report["summary"]["operations"]
        codes = ", ".join(found.codes) or "none"
        if found.codes != expected:
            over.append(f"{name} (findings)")
        times = f"{found.clock:.1f} s | {found.seconds:.1f} s"
        rows.append(f"| {name} | {operations:,} | {times} | {found.gigabytes:.2f} GB | {codes} |")
        if found.seconds > SECONDS or found.gigabytes > GIGABYTES:
            over.append(name)
    page = PAGE.format(cores=os.cpu_count(), seconds=SECONDS, gigabytes=GIGABYTES, rows="\n".join(rows))
    (ROOT / "docs" / "evidence" / "full-size.md").write_text(page)
    print("\n".join(rows))
    if over:
        sys.exit(f"over {SECONDS:.0f} s or {GIGABYTES:.0f} GB, or with other findings: {', '.join(over)}")


if __name__ == "__main__":
    main()

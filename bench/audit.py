"""How long `tc.audit` takes for 100 MB of each kind of text, and how much memory; --write: docs/evidence/audit.md.

The text is a foreign dump of the tests (tests/audit/data), repeated: as many lines as a large model has, with the line
lengths and the share of converts, products and metadata of a real one. Each runs in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIZE = 100_000_000
DUMPS = (
    ("jax-layer.before_optimizations.hlo", "HLO of jax, before optimisation, source lines in tables"),
    (
        "jax-layer.cpu_after_optimizations.hlo",
        "HLO of jax, after optimisation for the CPU: fusions, a quarter are converts",
    ),
    ("torch_xla-llama-step.hlo", "HLO of torch_xla, source lines in each instruction"),
    ("jax-layer.locations.mlir", "StableHLO of jax, pretty, with locations"),
    ("jax-layer.generic.mlir", "StableHLO of jax, generic, with locations"),
)


def measure(name: str) -> None:
    """Audits 100 MB of one dump, and prints seconds, instructions and the growth of memory in MB."""
    import truecast as tc

    once = (ROOT / "tests" / "audit" / "data" / name).read_bytes()
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(SIZE // len(once) + 1):
            file.write(once)
        file.flush()
        del once
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        report = tc.audit(file.name)
        seconds = time.perf_counter() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert not report.problems
    print(f"{seconds:.1f} {report.audit.instructions} {grown}")


def main() -> None:
    lines = [f"{'100 MB of':<78} {'seconds':>8} {'instructions':>13} {'memory':>8}"]
    for name, what in DUMPS:
        command = [sys.executable, __file__, name]
        seconds, instructions, grown = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.split()
        lines.append(f"{what:<78} {seconds:>8} {instructions:>13} {grown + ' MB':>8}")
        print(lines[-1], flush=True)
    if "--write" in sys.argv:
        (ROOT / "docs" / "evidence" / "audit.md").write_text(PAGE.format(table="\n".join(lines)), encoding="utf-8")


PAGE = """\
# The audit of 100 MB of text

`python bench/audit.py --write`: one process each, one thread, on two cores that other work may share. The texts are the
tests' dumps, repeated to 100 MB; memory is what the process grew by.

```text
{table}
```
"""

if __name__ == "__main__":
    named = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    measure(named[0]) if named else main()

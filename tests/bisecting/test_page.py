"""The Python program on docs/bisect.md runs, and the page names every metric and exit code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from truecast.diagnose.bisect.metrics import METRICS

PAGE = (Path(__file__).parents[2] / "docs/bisect.md").read_text()


def test_the_program_on_the_page_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "page.py").write_text(program)  # a file, so that operations have source lines
    run = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_page_names_every_metric() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == set(METRICS)

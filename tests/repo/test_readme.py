"""The README's example is run, and prints what the README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    program, output = blocks("python")[0], blocks("text")[0]
    (tmp_path / "gate.py").write_text(program)
    environment = {**os.environ, "COLUMNS": "120", "TRUECAST_CACHE": "off"}
    run = subprocess.run(
        [sys.executable, "gate.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.stderr == ""
    assert run.stdout.rstrip() == output.rstrip()


def test_the_example_policy_is_read() -> None:
    from truecast import Numerics

    policy = Numerics.from_toml(blocks("toml")[0])
    assert (policy.name, policy.target, policy.rules[0].compute) == ("tpu-careful", "tpu", "opmath")

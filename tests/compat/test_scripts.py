"""Scripts written for torch_xla run unchanged with `truecast run`, and give the losses that they give on the CPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from truecast.cli import run
from truecast.compat.install import installed
from truecast.scripts import run_program

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
# The greatest relative distance of two losses. float32 sums are formed in another order (2e-4 covers ten steps);
# under autocast products are rounded to 8 bits, and the two lists round elsewhere.
TOLERANCES = {"autocast": 2e-2}


def losses(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"^loss (\S+)$", text, re.MULTILINE)]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_gives_the_losses_of_the_cpu(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--shim", str(script)]) == 0
    device = capfd.readouterr().out
    with installed("cpu"):
        assert run_program(script, ["cpu"]) == 0
    got, expected = losses(device), losses(capfd.readouterr().out)
    assert len(expected) >= 4
    assert got == pytest.approx(expected, rel=TOLERANCES.get(script.stem, 2e-4), abs=2e-6)


def test_there_are_ten() -> None:
    assert len(SCRIPTS) == 10

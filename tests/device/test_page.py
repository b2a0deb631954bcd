"""The program on docs/device.md runs, and what the page says of settings and numerics holds."""

from __future__ import annotations

import re
from pathlib import Path

import tests.device.beside  # noqa: F401  (the device is made before any test runs a backward pass)
from truecast import settings

PAGE = (Path(__file__).parents[2] / "docs" / "device.md").read_text()


def test_the_example_runs(capsys):
    names: dict[str, object] = {}
    for program in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(program, "device.md", "exec"), names)
    assert names["logits"].grad.shape == (4, 8)
    shown = capsys.readouterr().out
    assert re.search(r"^runs +\d+$", shown, re.MULTILINE)


def test_the_settings_named_are_settings():
    assert set(re.findall(r"TRUECAST_[A-Z]+", PAGE)) == {"TRUECAST_FALLBACK", "TRUECAST_EAGER", "TRUECAST_MEMORY"}
    assert all(name in (settings.__doc__ or "") for name in re.findall(r"TRUECAST_[A-Z]+", PAGE))

"""The program on docs/torch_xla.md runs, and the page names what is provided and what is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.compat.test_names import PROVIDED
from truecast import settings
from truecast.compat import install
from truecast.numerics.environment import mappings

PAGE = (Path(__file__).parents[2] / "docs" / "torch_xla.md").read_text()


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    try:
        exec(compile(program, "torch_xla.md", "exec"), {})
        install.install()  # the second time does nothing
    finally:
        install._installed.close()
    assert capsys.readouterr().out == "xla:0 True\n"


def test_the_page_has_every_name() -> None:
    for names in PROVIDED.values():
        for name in names.split():
            short = "REDUCE_*" if name.startswith("REDUCE_") else name
            assert short == "__version__" or short == "_get_stablehlo" or short in PAGE, name


def test_the_page_has_every_variable() -> None:
    for said in mappings():
        assert f"`{said.variable}" in PAGE and said.variable in (settings.__doc__ or "")

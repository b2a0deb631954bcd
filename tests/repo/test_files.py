"""What every file of the repository keeps to."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON_FILES = sorted(
    path for folder in ("src", "tests", "examples", "bench") for path in (ROOT / folder).rglob("*.py")
)
MODULES = [path for path in PYTHON_FILES if path.is_relative_to(ROOT / "src")]
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "misc", "common"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name)
def test_no_file_over_600_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 600


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_says_why_it_exists(path: Path) -> None:
    source = path.read_text()
    assert not source.strip() or ast.get_docstring(ast.parse(source)), "no module docstring"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name)
def test_a_file_is_named_after_what_it_is_for(path: Path) -> None:
    assert path.stem not in VAGUE_NAMES

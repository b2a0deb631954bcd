"""Data flows one way, and imports point only backwards along the line of stages (docs/architecture.md)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "truecast"

# For each stage, the stages it may import besides itself.
ALLOWED: dict[str, set[str]] = {
    "leaf": set(),
    "graph": {"leaf"},
    "ops": {"leaf", "graph"},
    "capture": {"leaf", "graph", "ops"},
    "numerics": {"leaf", "graph", "ops"},
    "lowering": {"leaf", "graph", "ops", "numerics"},
    "runtime": {"leaf", "graph", "ops", "numerics", "capture", "lowering"},
    "api": {"leaf", "graph", "ops", "numerics", "capture", "lowering", "runtime", "diagnose", "report"},
    "compat": {"leaf", "graph", "ops", "numerics", "capture", "lowering", "runtime", "diagnose", "report", "api"},
    "cli": {
        *("leaf", "graph", "ops", "numerics", "capture", "lowering", "runtime"),
        *("diagnose", "report", "api", "compat"),
    },
    "diagnose": {"leaf", "graph", "ops", "numerics"},
    "report": {"leaf", "graph", "ops", "numerics", "diagnose"},
    "public": {"api", "capture", "numerics"},
}
STAGE_OF_FILE = {
    "__init__": "public",
    "callable_package": "leaf",
    "dtypes": "leaf",
    "errors": "leaf",
    "files": "leaf",
    "settings": "leaf",
    "sites": "leaf",
    "graph": "graph",
    "graph_text": "graph",
    "observations": "graph",
    "scripts": "leaf",
    "testing": "cli",
    "pytest_plugin": "cli",
    "__main__": "cli",
}
# The frameworks a stage may not touch.
FORBIDDEN_FRAMEWORKS = {
    "leaf": {"jax", "jaxlib", "torch"},
    "report": {"jax", "jaxlib", "torch"},
    "graph": {"torch", "jax", "jaxlib"},
    "ops": {"jax", "jaxlib"},
    "numerics": {"torch", "jax", "jaxlib"},
    "capture": {"jax", "jaxlib"},
    "lowering": {"torch"},
    "diagnose": {"jax", "jaxlib", "torch"},
}
# A leaf may import torch inside a function: `dtypes.torch_dtype` names a torch dtype when asked to.
LAZY_FRAMEWORK_IMPORTS = {("dtypes", "torch")}


def stage_of(parts: tuple[str, ...]) -> str:
    """The stage of a module given its path below truecast: ("lowering", "emit") -> "lowering"."""
    return STAGE_OF_FILE.get(parts[0], parts[0])


def violations(source: str, parts: tuple[str, ...]) -> list[str]:
    """What a module imports that its stage may not, one message each."""
    stage = stage_of(parts)
    if stage not in ALLOWED:
        return [f"{'.'.join(parts)} belongs to no stage"]
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "truecast" else [f"truecast.{a.name}" for a in node.names]
        for name in names:
            root, *rest = name.split(".")
            if root == "truecast" and rest:
                imported = stage_of(tuple(rest))
                if imported != stage and imported not in ALLOWED[stage]:
                    found.append(f"{'.'.join(parts)} ({stage}) imports {name} ({imported})")
            elif root in FORBIDDEN_FRAMEWORKS.get(stage, ()) and (parts[0], root) not in LAZY_FRAMEWORK_IMPORTS:
                found.append(f"{'.'.join(parts)} ({stage}) imports {name}")
    return found


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_backwards(path: Path) -> None:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    assert violations(path.read_text(), parts) == []


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("from truecast.lowering import emit", ("graph",)),
        ("from truecast import api", ("runtime", "cache")),
        ("from truecast.compat import install", ("api", "device")),
        ("import truecast.capture.recorder", ("numerics", "plan")),
        ("def f():\n    import torch", ("lowering", "shape")),
        ("from jax import lax", ("capture", "recorder")),
        ("x = 1", ("helpers",)),
    ],
)
def test_the_import_check_can_fail(source: str, parts: tuple[str, ...]) -> None:
    assert len(violations(source, parts)) == 1


def import_report(statement: str, forbidden: tuple[str, ...]) -> tuple[float, list[str]]:
    """Seconds of processor time that `statement` takes in a fresh interpreter (best of five), and which of `forbidden`
    it loads."""
    program = (
        "import sys, time\n"
        "start = time.process_time()\n"
        f"{statement}\n"
        "elapsed = time.process_time() - start\n"
        f"print(elapsed, *[m for m in {forbidden!r} if m in sys.modules])"
    )
    best, loaded = float("inf"), []
    for _ in range(5):
        out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
        best, loaded = min(best, float(out[0])), out[1:]
    return best, loaded


def test_import_truecast_is_light() -> None:
    seconds, loaded = import_report("import truecast", ("torch", "jax", "jaxlib", "numpy", "rich", "typer"))
    assert loaded == []
    assert seconds < 0.050


def test_the_lightness_check_can_fail() -> None:
    seconds, loaded = import_report("sum(range(10_000_000)); import json", ("json", "torch"))
    assert loaded == ["json"]
    assert seconds > 0.050

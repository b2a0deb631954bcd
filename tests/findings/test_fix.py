"""The smallest set of casts: where `fix` puts them, what they cost, what it leaves in float32, and what it can edit."""

from __future__ import annotations

import linecache
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import truecast as tc
from truecast.diagnose.fix.files import FileFix, fixes, hidden
from truecast.report.report import Report

HEAD = """\
import torch
import torch.nn.functional as F

linear = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
other = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
wide = torch.nn.Linear(8, 8)
latents = torch.ones(4, 8, dtype=torch.bfloat16)
table = torch.full((4, 1), 0.5)
"""


def explained(path: Path) -> Report:
    linecache.checkcache()
    with tc.recording() as tape, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(path.read_bytes(), str(path), "exec"), {"__name__": "__main__"})
        return tape.explain()


def errors_of(report: Report) -> list[str]:
    return [f.code for f in report.findings if f.severity == "error"]


def fixed(path: Path) -> tuple[FileFix, ...]:
    """Applies what mends the errors, and confirms it."""
    report = explained(path)
    assert report.flow is not None and errors_of(report)
    files, left = fixes([f for f in report.findings if f.severity == "error"], report.flow)
    assert left == ()
    for file in files:
        file.path.write_bytes(file.after)
    for module in [name for name in sys.modules if name.endswith("_of_the_test")]:
        del sys.modules[module]
    again, known = explained(path), (*report.findings, *hidden(report.flow))
    assert {f.code for f in again.findings} <= {f.code for f in known if f.severity != "error"}, str(again)
    return files


def changed(before: bytes, after: bytes) -> list[str]:
    """The lines of `after` that aren't in `before`."""
    return [line for line in after.decode().splitlines() if line not in before.decode().splitlines()]


@pytest.mark.parametrize(
    ("body", "lines", "costs"),
    [
        pytest.param(
            "noisy = (1 - table) * latents\nlinear(noisy)\nother(noisy.relu())\n",
            ["noisy = ((1 - table) * latents).to(latents.dtype)"],
            ["9: casts float32 to bfloat16 once, moves 192 B, mends 1 finding"],
            id="one cause, one cast",
        ),
        pytest.param(
            "norm = torch.nn.LayerNorm(8, dtype=torch.bfloat16)\nx = latents * table\nlinear(x)\nnorm(x)\n",
            ["x = (latents * table).to(latents.dtype)"],
            ["10: casts float32 to bfloat16 once, moves 192 B, mends 2 findings"],
            id="two findings, one cast",
        ),
        pytest.param(
            "x = wide(latents.float())\ny = x.relu()\nlinear(y)\nother(y * 2)\n",
            ["y = x.relu().to(torch.bfloat16)"],
            ["10: casts float32 to bfloat16 once, moves 192 B, mends 1 finding"],
            id="behind what both read",
        ),
        pytest.param(
            "x = latents * table\nlinear(x)\nF.mse_loss(x, x + 1)\n",
            ["linear(x.to(torch.bfloat16))"],
            ["10: casts float32 to bfloat16 once, moves 192 B, mends 1 finding"],
            id="a loss stays in float32",
        ),
        pytest.param(
            "x = latents * table\nlinear(x)\nwide(x)\n",
            ["linear(x.to(torch.bfloat16))"],
            ["10: casts float32 to bfloat16 once, moves 192 B, mends 1 finding"],
            id="a float32 layer reads it too",
        ),
        pytest.param(
            "angle = wide(latents.float())\nlinear(torch.sin(angle))\nother(torch.cos(angle))\n",
            ["linear(torch.sin(angle).to(torch.bfloat16))", "other(torch.cos(angle).to(torch.bfloat16))"],
            [
                "10: casts float32 to bfloat16 once, moves 192 B, mends 1 finding",
                "11: casts float32 to bfloat16 once, moves 192 B, mends 1 finding",
            ],
            id="an angle stays in float32",
        ),
        pytest.param(
            "small = wide(torch.ones(1, 8)).relu()\nlinear(small.expand(64, 8))\n",
            ["small = wide(torch.ones(1, 8)).relu().to(torch.bfloat16)"],
            ["9: casts float32 to bfloat16 once, moves 48 B, mends 1 finding"],
            id="before it grows",
        ),
        pytest.param(
            "for _ in range(3):\n    x = latents * table\n    linear(x)\n",
            ["    x = (latents * table).to(latents.dtype)"],
            ["10: casts float32 to bfloat16 3 times, moves 576 B, mends 1 finding"],
            id="a loop",
        ),
        pytest.param(
            "x = wide(torch.ones(1, 8))\na = torch.broadcast_tensors(x, latents)[0]\nlinear(a)\nother(a)\nwide(x)\n",
            ["linear(a.to(torch.bfloat16))", "other(a.to(torch.bfloat16))"],
            [
                "11: casts float32 to bfloat16 once, moves 192 B, mends 1 finding",
                "12: casts float32 to bfloat16 once, moves 192 B, mends 1 finding",
            ],
            id="a tuple is no tensor",
        ),
        pytest.param(
            "x = torch.zeros(4, 8)\nx.add_(table)\nx += 1\nlinear(x)\n",
            ["linear(x.to(torch.bfloat16))"],
            ["12: casts float32 to bfloat16 once, moves 192 B, mends 1 finding"],
            id="written in place",
        ),
        pytest.param(
            "half = torch.nn.Linear(8, 8, dtype=torch.float16)\nx = wide(latents.float())\nlinear(x)\nhalf(x)\n",
            ["linear(x.to(torch.bfloat16))", "half(x.to(torch.float16))"],
            [
                "11: casts float32 to bfloat16 once, moves 192 B, mends 1 finding",
                "12: casts float32 to float16 once, moves 192 B, mends 1 finding",
            ],
            id="two dtypes wanted",
        ),
    ],
)
def test_where_the_casts_stand(tmp_path: Path, body: str, lines: list[str], costs: list[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text(HEAD + body)
    (file,) = fixed(path)
    assert changed(file.before, file.after) == lines
    assert list(file.costs) == costs


@pytest.mark.parametrize(
    ("body", "after"),
    [
        pytest.param(
            "linear(\n    latents  # first\n    * table\n)\n",
            "linear(\n    (latents  # first\n    * table).to(latents.dtype)\n)\n",
            id="several lines in a call",
        ),
        pytest.param(
            "x = (\n    latents\n    * table  # why\n)\nlinear(x)\n",
            "x = (\n    latents\n    * table  # why\n).to(latents.dtype)\nlinear(x)\n",
            id="several lines in brackets",
        ),
        pytest.param(
            "y = [linear(t * table) for t in [latents]]\n",
            "y = [linear((t * table).to(t.dtype)) for t in [latents]]\n",
            id="a comprehension",
        ),
        pytest.param(
            "linear((latents * table).reshape(2, 2, 8).flatten(0, 1))\n",
            "linear((latents * table).to(latents.dtype).reshape(2, 2, 8).flatten(0, 1))\n",
            id="a chain of calls",
        ),
        pytest.param(
            "@linear.register_forward_pre_hook\ndef hook(module, args):\n"
            "\treturn (args[0] * table,)\nlinear(latents)\n",
            "@linear.register_forward_pre_hook\ndef hook(module, args):\n"
            "\treturn ((args[0] * table).to(torch.bfloat16),)\nlinear(latents)\n",
            id="a decorated function, tabs",
        ),
        pytest.param(
            "f = lambda t: linear(-t * table if True else t); f(latents)\n",
            "f = lambda t: linear((-t * table).to(t.dtype) if True else t); f(latents)\n",
            id="a lambda, statements on a line",
        ),
        pytest.param(
            "cache = torch.zeros(4, 8, dtype=torch.bfloat16)\ncache[torch.tensor([1])] = torch.ones(1, 8)\n",
            "cache = torch.zeros(4, 8, dtype=torch.bfloat16)\n"
            "cache[torch.tensor([1])] = torch.ones(1, 8).to(torch.bfloat16)\n",
            id="what an assignment writes",
        ),
    ],
)
def test_any_expression_can_be_cast(tmp_path: Path, body: str, after: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(HEAD + body)
    (file,) = fixed(path)
    assert file.after.decode() == HEAD + after


@pytest.mark.parametrize(
    ("encoding", "end", "first"),
    [("utf-8", "\r\n", ""), ("latin-1", "\n", "# -*- coding: latin-1 -*-"), ("utf-8-sig", "\r\n", "")],
)
def test_the_file_keeps_its_encoding_and_line_ends(tmp_path: Path, encoding: str, end: str, first: str) -> None:
    text = f"{first}\n{HEAD}größe = latents * table  # größer\nlinear(größe)".replace("\n", end)
    path = tmp_path / "train.py"
    path.write_bytes(text.encode(encoding))
    (file,) = fixed(path)
    mended = text.replace("größe = latents * table", "größe = (latents * table).to(latents.dtype)")
    assert file.after == mended.encode(encoding)
    assert "größe = (latents * table).to(latents.dtype)" in file.diff()
    assert file.diff().endswith("\\ No newline at end of file\n")


def test_several_files_and_one_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "blending_of_the_test.py").write_text(
        '"""Blends."""\n\n\ndef blend(a, b):\n    return a.abs() + b.abs()\n'
    )
    (tmp_path / "layers_of_the_test.py").write_text(
        "import torch as th\n\nnorm = th.nn.LayerNorm(8, dtype=th.float16)\n\n\ndef normed(x):\n    return norm(x)\n"
    )
    path = tmp_path / "train.py"
    path.write_text(
        f"{HEAD}from blending_of_the_test import blend\nfrom layers_of_the_test import normed\n"
        "linear(blend(wide(latents.float()), table))\nnormed(torch.ones(2, 8))\n"
    )
    files = fixed(path)
    assert {f.path.name: changed(f.before, f.after) for f in files} == {
        "blending_of_the_test.py": ["import torch", "    return (a.abs() + b.abs()).to(torch.bfloat16)"],
        "layers_of_the_test.py": ["    return norm(x.to(th.float16))"],
    }


def test_a_package_is_not_edited(tmp_path: Path) -> None:
    path = tmp_path / "site-packages" / "library.py"
    path.parent.mkdir()
    path.write_text(HEAD + "linear(latents * table)\n")
    report = explained(path)
    assert report.flow is not None
    files, left = fixes(report.findings, report.flow)
    assert (files, [f.code for f in left]) == ((), ["TC101"])


OPERATIONS = (
    "({a} + {b})",
    "{a} * {b}",
    "{a}.relu()",
    "{a} * table",
    "{a}.float()",
    "{a}.to(torch.bfloat16)",
    "torch.cat([{a}, {b}])[:4]",
    "linear({a})",
    "wide({a})",
    "{a}.softmax(-1)",
    "torch.sin({a})",
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_program_is_mended(tmp_path: Path, data: st.DataObject) -> None:
    """Straight-line programs of arithmetic, casts and layers of two dtypes: fix leaves no error, and brings none."""
    names, lines = ["latents"], []
    for number in range(data.draw(st.integers(2, 7))):
        operation = data.draw(st.sampled_from(OPERATIONS))
        a, b = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
        names.append(f"x{number}")
        lines.append(f"x{number} = {operation.format(a=a, b=b)}")
    path = tmp_path / "train.py"
    path.write_text(HEAD + "\n".join(lines) + "\n")
    report = explained(path)
    assert report.flow is not None
    errors = [f for f in report.findings if f.severity == "error"]
    files, left = fixes(errors, report.flow)
    assert left == (), str(report)
    for file in files:
        file.path.write_bytes(file.after)
    assert errors_of(explained(path)) == [], path.read_text()

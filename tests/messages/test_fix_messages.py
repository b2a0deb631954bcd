"""What `truecast fix` prints, what it writes, and what it leaves as it was."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from truecast import cli
from truecast.cli import fix as cli_fix

SCRIPT = b"""\
import torch\r
\r
layer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)\r
x = torch.ones(2, 4, dtype=torch.bfloat16)\r
scale = torch.full((2, 1), 0.5)   # kept as it is\r
y = x * scale\r
layer(y)\r
"""
FIXED = SCRIPT.replace(b"y = x * scale", b"y = (x * scale).to(x.dtype)")


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    path = Path("train.py")
    path.write_bytes(SCRIPT)
    return path


def ends(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["fix", "train.py", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_diff_and_nothing_written(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ends(capsys)
    assert (code, err) == (1, "")
    assert out.replace("\r", "") == (
        "# train.py:6: casts float32 to bfloat16 once, moves 48 B, mends 1 finding\n"
        "--- a/train.py\n+++ b/train.py\n@@ -3,5 +3,5 @@\n layer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)\n"
        " x = torch.ones(2, 4, dtype=torch.bfloat16)\n scale = torch.full((2, 1), 0.5)   # kept as it is\n"
        "-y = x * scale\n+y = (x * scale).to(x.dtype)\n layer(y)\n"
    )
    assert train.read_bytes() == SCRIPT


def test_written_and_run_again(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ends(capsys, "--write")
    assert (code, err) == (0, "1 finding fixed in train.py; the script ran again, and nothing new was found\n")
    assert train.read_bytes() == FIXED
    assert ends(capsys) == (0, "", "nothing to fix\n")


def test_a_change_that_does_not_help_is_taken_back(
    train: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    worse = {"findings": [{"code": "TC101", "severity": "error"}, {"code": "TC202", "severity": "warning"}]}
    monkeypatch.setattr(cli_fix, "_again", lambda *_: worse)
    code, _, err = ends(capsys, "--write")
    assert (code, train.read_bytes()) == (2, SCRIPT)
    assert err == (
        "truecast: the files are as they were; why: the changed script has findings that it did not have: TC202; "
        "help: the diff above is what was tried\n"
    )
    monkeypatch.setattr(cli_fix, "_again", lambda *_: {"findings": worse["findings"][:1]})
    assert "the findings are still there: TC101" in ends(capsys, "--write")[2]
    assert train.read_bytes() == SCRIPT


def test_a_file_that_changed_meanwhile_is_not_touched(
    train: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = cli_fix._apply

    def changed_before(files: object) -> None:
        train.write_bytes(SCRIPT + b"# somebody's\n")
        apply(files)

    monkeypatch.setattr(cli_fix, "_apply", changed_before)
    code, _, err = ends(capsys, "--write")
    assert code == 2
    assert err.startswith("truecast: a file changed meanwhile: nothing is written (")
    assert train.read_bytes() == SCRIPT + b"# somebody's\n"


def test_a_file_written_while_the_script_runs_is_not_touched(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writes = SCRIPT + b"open(__file__, 'ab').write(b'# meanwhile\\r\\n'); import os; os.utime(__file__, (0, 0))\r\n"
    train.write_bytes(writes)
    code, _, err = ends(capsys, "--write")
    assert code == 2
    assert err.startswith("truecast: a file changed meanwhile: nothing is written (")
    assert train.read_bytes() == writes + b"# meanwhile\r\n"


def test_what_the_errors_hid_is_told(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train.write_text(
        "import torch\nlayer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)\n"
        "x = torch.ones(2, 4, dtype=torch.bfloat16)\nwide = x * torch.ones(2, 1)\n"
        "layer(wide)\ntorch.nn.Linear(4, 4)(wide)\n"
    )
    code, _, err = ends(capsys, "--write")
    assert (code, err) == (
        0,
        "1 finding fixed in train.py; the script ran again, and nothing new was found\n"
        "what the errors hid is seen now: TC201\n",
    )


def test_what_no_edit_mends_is_named(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train.write_text(
        "import torch\nlayer = torch.nn.Linear(4, 4)\n"
        "layer.bias.data = layer.bias.data.half()\nlayer(torch.ones(2, 4))\n"
    )
    code, out, err = ends(capsys)
    assert (code, out) == (1, "")
    assert err.startswith("not fixed: TC101 at train.py:4:1: ")

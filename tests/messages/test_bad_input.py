"""Scripts that don't behave: what `truecast explain` says of them, and that what was found until then is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.messages.test_explain_messages import ends, here

__all__ = ["here"]  # a fixture
LAYER = "import torch\nlayer = torch.nn.Linear(4, 4, dtype=torch.bfloat16)\n"
FAULT = LAYER + "y = layer(torch.ones(2, 4))\n"  # one error, in 7 operations
FOUND = "error[TC101]: a float32 activation meets a bfloat16 weight"
ASKS = "the program asks for the contents of a tensor"


@pytest.mark.parametrize(
    ("end", "arguments", "code", "message"),
    [
        ("raise ValueError('no data')", (), 2, "train.py raised ValueError at train.py:4: no data"),
        ("raise KeyboardInterrupt", (), 2, "train.py was interrupted"),
        ("raise SystemExit", (), 1, ""),
        ("import sys; sys.exit('no data')", (), 2, "train.py ended with exit('no data')"),
        ("def f(): return f()\nf()", (), 2, "train.py raised RecursionError at train.py:4: maximum recursion depth"),
        ("import no_such_module", (), 2, "train.py raised ModuleNotFoundError at train.py:4: No module named"),
        ("class Odd(BaseException): pass\nraise Odd", (), 2, "train.py raised Odd at train.py:5"),
        ("if y.sum() > 0: pass", ("--fake",), 2, f"train.py stopped at train.py:4:4: {ASKS}"),
        ("while (y > 0).any(): y = y - 1", ("--fake",), 2, f"train.py stopped at train.py:4:1: {ASKS}"),
        ("y[y > 0]", ("--fake",), 2, f"train.py stopped at train.py:4:1: {ASKS}"),
        ("y.tolist()", ("--fake",), 2, f"train.py stopped at train.py:4:1: {ASKS}"),
        ("int(y.sum())", ("--fake",), 2, f"train.py stopped at train.py:4:1: {ASKS}"),
        ("y.detach().float().numpy()", ("--fake",), 2, f"train.py stopped at train.py:4:1: {ASKS}"),
        ("f'{y}'", ("--fake",), 1, ""),
    ],
)
def test_what_was_found_is_printed_whatever_comes_then(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    end: str,
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    ended, out, err = ends(capsys, FAULT + end + "\n", *arguments)
    assert out.startswith(FOUND)
    assert ended == code
    assert err.startswith(f"truecast: {message}") if message else err == ""
    last = out.splitlines()[-1]
    assert re.match(r"1 error in \d+ operations" + (f"; {re.escape(message)}" if message else "$"), last), last


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            b"x = 1  # \xe9\n",
            "train.py:1); values: SyntaxError: byte 0xe9 is not utf-8, and no other encoding is declared",
        ),
        (b"# coding: ascii\n\nx = '\xe9'\n", "train.py:3); values: SyntaxError: byte 0xe9 is not ascii, and no other"),
        (b"# coding: nothing\n", "train.py); values: SyntaxError: unknown encoding: nothing"),
        (b"x = 1\0\n", "train.py); values: SyntaxError: source code string cannot contain null bytes"),
        (b"def f(:\n", "train.py:1:7); values: SyntaxError: invalid syntax"),
        (b"if True:\nx = 1\n", "train.py:2:1); values: SyntaxError: expected an indented block"),
    ],
)
def test_what_is_no_python(here: Path, capsys: pytest.CaptureFixture[str], script: bytes, message: str) -> None:
    code, out, err = ends(capsys, script)
    assert (code, out) == (2, "")
    assert err.startswith(f"truecast: the script is not valid Python ({message}") and err.count("\n") == 1


@pytest.mark.parametrize(
    "script",
    [
        b"# coding: latin-1\n" + FAULT.replace("y =", "caf\xe9 =").encode("latin-1"),
        b"\xef\xbb\xbf" + FAULT.encode(),
        FAULT.replace("\n", "\r\n").encode(),
        FAULT.replace("y =", "größe =").encode(),
    ],
    ids=["latin-1", "a byte order mark", "CRLF", "UTF-8"],
)
def test_encodings_that_python_reads(here: Path, capsys: pytest.CaptureFixture[str], script: bytes) -> None:
    code, out, err = ends(capsys, script)
    assert (code, err) == (1, "")
    source, carets = out.splitlines()[2:4]
    start = carets.index("^")
    assert source[start : carets.rindex("^") + 1] == "layer(torch.ones(2, 4))"


def test_a_folder_is_no_script(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from truecast import cli

    Path("package").mkdir()
    assert cli.run(["explain", "package"]) == 2
    assert capsys.readouterr().err == "truecast: there is no such script (package)\n"


def test_a_module_from_a_zip_shows_its_source(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = LAYER + textwrap.dedent(
        """
        import os, sys, zipfile
        archive = os.path.abspath("library.zip")
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("from_the_zip.py", "import torch\\n\\ndef widen(x):\\n    return x * torch.ones(1, 4)\\n")
        sys.path.insert(0, archive)
        import from_the_zip
        layer(from_the_zip.widen(torch.ones(2, 4, dtype=torch.bfloat16)))
        """
    )
    code, out, _ = ends(capsys, script)
    assert code == 1
    origin = out.splitlines().index("  origin: library.zip/from_the_zip.py:4:12")
    assert out.splitlines()[origin + 1] == "      4 |     return x * torch.ones(1, 4)"


def test_code_made_by_exec_says_that_it_has_no_source(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = 'exec(compile("def f():\\n    return layer(torch.ones(2, 4))\\n", "<made>", "exec"))\nf()\n'
    code, out, _ = ends(capsys, LAYER + made)
    assert code == 1
    assert "  --> <made>:2:12 (its source can't be read)   in f   (forward)" in out
    assert "  origin: <made>:2:18 (its source can't be read)" in out


def ran(script: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    Path("train.py").write_text(script)
    program = "from truecast.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, "explain", *arguments, "train.py"],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
        input=given,
        timeout=120,
    )


def test_it_reads_stdin_and_its_workers_load_data(here: Path) -> None:
    script = LAYER + textwrap.dedent(
        """
        from torch.utils.data import DataLoader, TensorDataset
        size = int(input("batch size? "))
        data = TensorDataset(torch.ones(4, 4))
        for (x,) in DataLoader(data, batch_size=size, num_workers=1):
            layer(x)
        """
    )
    done = ran(script, given="2\n")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(f"batch size? {FOUND}\n") and "  --> train.py:8:5   (forward, 2 times)" in done.stdout
    done = ran(script)
    assert done.returncode == 2
    assert done.stderr == "truecast: train.py raised EOFError at train.py:5: EOF when reading a line\n"


def test_a_file_of_tensors_is_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = LAYER + "torch.save({'x': torch.ones(2, 4)}, 'x.pt')\nlayer(torch.load('x.pt')['x'])\n"
    code, out, err = ends(capsys, script)
    assert (code, err) == (1, "")
    assert out.startswith(FOUND) and "  --> train.py:4:1   (forward)" in out

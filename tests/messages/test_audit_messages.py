"""What `truecast audit` prints and how it ends, word for word."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from truecast import cli

SCRIPT = """\
import torch

example_inputs = (torch.ones(2, 4).bfloat16(), torch.ones(4).bfloat16())


def scale(x, y):
    return x * y


number = 3
"""

HLO = """\
HloModule m

ENTRY %main (p: f32[4]) -> bf16[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %c = bf16[4]{0} convert(%p), metadata={op_name="jit(f)/convert_element_type" source_file="f.py" source_line=3}
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    Path("a.hlo").write_text(HLO)
    Path("b.hlo").write_text(HLO.replace("bf16", "f16").replace("}\n}", "}\njunk\n}"))
    yield tmp_path


def ends(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(capsys, "audit", "a.hlo", "--json", "a.json", "--html", "a.html") == (
        0,
        "audit of a.hlo: HLO, 2 instructions\n"
        "  converts         1 floating (1 the program's), 24 B read and written; 0 exact\n"
        "  products         0, 0 of them in reduced precision\n"
        "  sums in 16 bits  0\n"
        "  float64          none\n"
        "\n"
        "f.py:3\n"
        "  convert  float32 -> bfloat16    24 B  convert_element_type  the program\n",
        "",
    )
    assert json.loads(Path("a.json").read_text())["audit"]["counts"]["converts"] == 1
    assert "float32 -&gt; bfloat16" in Path("a.html").read_text()


def test_a_script_leads_back_to_its_line_and_rule(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ends(capsys, "audit", "script.py:scale", "--numerics", "torch_xla-2.9")
    assert (code, err) == (0, "")
    assert out == (
        "audit of scale under torch_xla-2.9: StableHLO, 6 instructions\n"
        "  converts         3 floating (3 the Plan's), 120 B read and written; 0 exact\n"
        "  products         0, 0 of them in reduced precision\n"
        "  sums in 16 bits  0\n"
        "  float64          none\n"
        "\n"
        "script.py:7  return x * y\n"
        "  convert  bfloat16 -> float32  x2  72 B  aten.mul.Tensor  the Plan: aten.mul.Tensor, compute = float32\n"
        "  convert  float32 -> bfloat16      48 B  aten.mul.Tensor  the Plan: aten.mul.Tensor, compute = float32\n"
    )


def test_two_policies(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("audit", "script.py:scale", "-n", "torch_xla-2.9", "--against-numerics", "torch_xla-2.10")
    assert ends(capsys, *arguments, "--fail-on", "difference") == (
        1,
        "audit: scale under torch_xla-2.9 -> scale under torch_xla-2.10\n"
        "  floating converts     3      ->  0\n"
        "  converts: the Plan's  3      ->  0\n"
        "  converts: bytes       120 B  ->  0 B\n"
        "\n"
        "script.py:7  return x * y\n"
        "  aten.mul.Tensor: converts 3 -> 0, 120 B -> 0 B\n"
        "    bfloat16 -> float32  2 -> 0  aten.mul.Tensor -> -\n"
        "    float32 -> bfloat16  1 -> 0  aten.mul.Tensor -> -\n",
        "",
    )


def test_two_files_and_a_line_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ends(capsys, "audit", "a.hlo", "--against", "b.hlo", "--fail-on", "unread")
    assert code == 1
    assert out == (
        "audit: a.hlo -> b.hlo\n"
        "  lines not read  0  ->  1\n"
        "\n"
        "f.py:3\n"
        "  convert_element_type: converts 1 -> 1, 24 B -> 24 B\n"
        "    float32 -> bfloat16  1 -> 0\n"
        "    float32 -> float16   0 -> 1\n"
    )
    _, out, _ = ends(capsys, "audit", "b.hlo")
    assert "  not read: b.hlo:6:1: an operation was expected\n" not in out
    assert '  not read: b.hlo:6:5: " = " was expected\n' in out


def test_what_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(capsys, "audit", "a.hlo", "--fail-on", "float64", "--fail-on", "sums", "--fail-on", "nobody")[0] == 0
    Path("c.hlo").write_text(HLO.replace("f32", "f64"))
    assert ends(capsys, "audit", "c.hlo", "--fail-on", "float64")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("absent.hlo",),
            "there is no such file (absent.hlo); help: a file with HLO or StableHLO, or SCRIPT:FUNCTION, ",
        ),
        (
            ("script.py",),
            "'script.py' does not name a function; help: a file with HLO or StableHLO, or SCRIPT:FUNCTION, ",
        ),
        ((".",), "this is a directory (.); help: a file with HLO or StableHLO, or SCRIPT:FUNCTION, "),
        (("x" * 300,), f"there is no such file ({'x' * 300}); help: a file with HLO"),
        (("x" * 300 + ".py:f",), f"there is no such script ({'x' * 300}.py)"),
        (("absent.py:f",), "there is no such script (absent.py)"),
        (("script.py:number",), "'number' in script.py can't be called; values: it is a int"),
        (
            ("a.hlo", "--numerics", "tpu"),
            "a.hlo is lowered already; why: --numerics, --target and --optimized say how a program is lowered; "
            "help: leave them out, or give SCRIPT:FUNCTION",
        ),
        (
            ("a.hlo", "--fail-on", "f64"),
            "--fail-on does not know 'f64'; help: one of float64, nobody, removed, sums, unread, difference",
        ),
        (
            ("a.hlo", "--fail-on", "difference"),
            "--fail-on difference needs a second program; help: --against B, or --against-numerics NAME",
        ),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ends(capsys, "audit", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"truecast: {error}")
    assert err.count("\n") == 1


def test_a_binary_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.pb").write_bytes(b"\x08\x00\x12")
    code, _, err = ends(capsys, "audit", "x.pb")
    assert code == 2
    assert err.startswith(
        "truecast: this is a binary file, not text (x.pb); values: it begins with b'\\x08\\x00\\x12'; "
    )


def test_a_text_that_was_cut_off_is_not_all_well(capsys: pytest.CaptureFixture[str]) -> None:
    entry, locations = HLO.index("ENTRY"), 'loc("a")\n#loc2 = loc("b")\n'
    mlir = (
        "module {\n  func.func public @main(%a: tensor<2xf32>) -> tensor<2xbf16> {\n"
        "    %0 = stablehlo.convert %a : (tensor<2xf32>) -> tensor<2xbf16> loc(#loc2)\n"
        "    return %0 : tensor<2xbf16>\n  }\n}\n"
    )
    for text in (HLO[:entry], HLO.splitlines()[0], "#loc1 = loc(unknown)\n", mlir, mlir + "#loc1 = " + locations[:9]):
        Path("cut").write_text(text)
        code, out, _ = ends(capsys, "audit", "cut", "--fail-on", "unread")
        assert code == 1 and " ends before " in out
    Path("cut").write_text(mlir + "#loc1 = " + locations)
    assert ends(capsys, "audit", "cut", "--fail-on", "unread")[0] == 0


def test_a_text_from_a_pipe_and_one_with_a_byte_order_mark(capsys: pytest.CaptureFixture[str]) -> None:
    Path("marked").write_bytes(b"\xef\xbb\xbf" + HLO.encode())
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_text(HLO))
    writer.start()
    outs = [ends(capsys, "audit", name)[1].partition(":")[2] for name in ("a.hlo", "marked", "pipe")]
    writer.join()
    assert outs[0] == outs[1] == outs[2]

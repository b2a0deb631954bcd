"""What `truecast gate` and its fixture print and how they end, word for word."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from truecast import cli

SCRIPT = """\
import torch

torch.manual_seed(0)
x = torch.randn(4, 16).bfloat16()
example_inputs = (x,)


def step(x):
    wide = x * x * 1.5
    return (wide * x).sum(-1)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    yield Path("script.py")


def ends(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["gate", "script.py:step", "--baseline", "gate.toml", *arguments])
    captured = capsys.readouterr()
    return code, re.sub(r"0\.0\d+ \(\d+\.\d\d times", "X (Y times", captured.out), captured.err


WROTE = "wrote gate.toml: 3 lines of 'step' under torch_xla-2.9\n"
WORSE = """\
gate 'step' under torch_xla-2.10 (baseline: torch_xla-2.9): WORSE than gate.toml

aten.mul.Tensor: compute float32 -> bfloat16
  --> script.py:10 in step
    | return (wide * x).sum(-1)
  rule: every operation: compute = same, accumulate = same, rounding = compiler  (preset torch_xla-2.10:30)
  was:  aten.mul.Tensor: compute = opmath, rounding = compiler

aten.mul.Tensor (2 operations): compute float32 -> bfloat16
  --> script.py:9 in step
    | wide = x * x * 1.5
  rule: every operation: compute = same, accumulate = same, rounding = compiler  (preset torch_xla-2.10:30)
  was:  aten.mul.Tensor: compute = opmath, rounding = compiler

better: converts 8 -> 0
better: bytes converted 3072 -> 0

help: mend it, or accept it with --update and review the difference of the baseline
"""


def test_a_changed_lowering_fails_with_rule_and_line(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unmeasured = ("--reference", "none")
    assert ends(capsys, "-n", "torch_xla-2.9", "--update", *unmeasured) == (0, "", WROTE)
    code, out, err = ends(capsys, "-n", "torch_xla-2.9", *unmeasured)
    assert (code, out, err) == (0, "gate 'step' under torch_xla-2.9: no worse than gate.toml\n", "")
    assert ends(capsys, "-n", "torch_xla-2.10", *unmeasured) == (1, WORSE, "")


def test_more_converts_fail_and_lines_that_moved_do_not(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(capsys, "-n", "torch_xla-2.9", "--update")[0] == 0
    script.write_text(SCRIPT.replace("\n\ndef step", "\n# one more line\n\ndef step"))
    assert ends(capsys, "-n", "torch_xla-2.9")[0] == 0
    script.write_text(SCRIPT.replace("    return (wide", "    wide = wide * wide\n    return (wide"))
    code, out, _ = ends(capsys, "-n", "torch_xla-2.9")
    assert code == 1
    assert (
        "\naten.mul.Tensor: converts 0 -> 3, bytes converted 0 -> 1152\n  --> script.py:10 in step\n"
        "    | wide = wide * wide\n  rule: aten.mul.Tensor: compute = opmath, rounding = compiler  "
        "(preset torch_xla-2.9:6)\n  the baseline does not have this line\n" in out
    )


def test_a_larger_error_fails(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(capsys, "-n", "cpu", "--update")[0] == 0
    text = Path("gate.toml").read_text()
    Path("gate.toml").write_text(re.sub(r"error = \S+", "error = 0.00001", text))
    code, out, _ = ends(capsys, "-n", "cpu")
    assert code == 1
    assert re.fullmatch(
        r"gate 'step' under cpu: WORSE than gate\.toml\n\n"
        r"error against float64 1e-05 \(0\.0\d times honest rounding\) -> "
        r"(X \(Y|0\.00\d+ \(\d\.\d\d) times honest rounding\)\n  it may be 1\.1 times the baseline's\n\nhelp: .*\n",
        out,
    )
    assert ends(capsys, "-n", "cpu", "--slack", "1e6")[0] == 0


def test_what_can_not_be_compared_is_refused(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*arguments: str) -> str:
        code, out, err = ends(capsys, "-n", "cpu", *arguments)
        assert (code, out) == (2, "")
        return err

    assert refused("--reference", "none") == (
        "truecast: there is no baseline (gate.toml); help: --update measures the program and writes it; "
        "then commit it\n"
    )
    ends(capsys, "-n", "cpu", "--update", "--reference", "none")
    assert refused("--reference", "float64") == (
        "truecast: this baseline measures the error otherwise (gate.toml); values: reference none, now float64; "
        "help: --reference none, or --update\n"
    )
    for slack in ("nan", "-1"):
        wrong = refused("--reference", "none", "--slack", slack)
        assert wrong.startswith("truecast: the slack is a share, 0 or more; values: slack ")
    text = Path("gate.toml").read_text()
    Path("gate.toml").write_text(text.replace('program = "step"', 'program = "other"'))
    assert refused("--reference", "none") == (
        "truecast: this baseline is of another program (gate.toml); values: of 'other', not 'step'\n"
    )
    Path("gate.toml").write_text(text[:-3])
    assert refused("--reference", "none").startswith(
        "truecast: this baseline can't be used (gate.toml); why: it is no whole TOML text: "
    )
    code, _, err = ends(capsys, "--update", "--baseline", "no/gate.toml", "--reference", "none")
    assert (code, err) == (
        2,
        "truecast: the baseline can't be written (no/gate.toml); why: No such file or directory\n",
    )


pytest_plugins = ["pytester"]


def test_the_fixture_writes_compares_and_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import torch

        def step(x):
            return x * x

        def test_step(assert_no_worse):
            x = torch.ones(4).bfloat16()
            assert_no_worse("step.toml", step, x, numerics=policy, reference="none")
        """
    )
    pytester.makeconftest("import builtins\nbuiltins.policy = 'torch_xla-2.9'")
    pytester.runpytest_inprocess("--truecast-update").assert_outcomes(passed=1)
    assert (pytester.path / "step.toml").is_file()
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
    pytester.makeconftest("import builtins\nbuiltins.policy = 'tpu'")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*gate 'step' under tpu (baseline: torch_xla-2.9): WORSE than step.toml*"])

"""What `truecast bisect` prints and how it ends, word for word."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from truecast import cli
from truecast.numerics.numerics import Numerics

SCRIPT = """\
import torch

x = torch.linspace(0.1, 2.0, 24)
example_inputs = (x,)


def step(x):
    wide = (x * 1.2345).exp()
    return wide.sum(-1, keepdim=True) + wide


def worst(result, good):
    return (result - good).abs().max()


def words(result, good):
    return "much"
"""

GOOD = 'name = "good"\n'
BAD = """\
name = "bad"

[[rule]]
op = "aten.mul.*"
compute = "bfloat16"
note = "planted"

[[rule]]
op = "aten.exp.*"
compute = "float64"
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    Path("good.toml").write_text(GOOD)
    Path("bad.toml").write_text(BAD)
    yield Path("script.py")


def ends(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["bisect", "script.py:step", "--good", "good.toml", "--bad", "bad.toml", *arguments])
    captured = capsys.readouterr()
    # What a wider exp changes is the last bits of the processor's own exp.
    out = re.sub(r"(without it:|is then) (0|\d\.?\d*e-0[78])$", r"\1 TINY", captured.out, flags=re.MULTILINE)
    return code, out, captured.err


FOUND = """\
bisect 'step': good good, bad bad, metric max_rel
  good       0
  bad        0.001524
  bound      0.0001524
  decisions  2 operations of 4 decided differently
  runs       8

1 operation carries it; without it: TINY

good the default
bad  aten.mul.*: compute = bfloat16  (bad.toml:3)
       planted
  aten.mul.Tensor  compute float32 -> bfloat16
    script.py:8
      | wide = (x * 1.2345).exp()
      explains 100% of the difference
"""


def test_the_answer_is_rule_operation_and_line(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ends(capsys, "--json", "found.json")
    assert (code, err) == (1, "")
    assert out == FOUND
    written = json.loads(Path("found.json").read_text())
    assert (written["schema"], written["regressed"], written["finished"], written["uncertain"]) == (1, True, True, "")
    (part,) = written["parts"]
    assert part["nodes"] == [{"name": "mul_1", "op": "aten.mul.Tensor", "file": "script.py", "line": 8, "module": ""}]
    assert (part["bad_rule"], part["good_rule"]) == ("aten.mul.*: compute = bfloat16  (bad.toml:3)", None)


def test_no_regression_ends_with_0(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ends(capsys, "--bound", "0.5")
    assert code == 0
    assert out.endswith("\nno regression: bad is not above the bound\n")


def test_reverse_is_a_policy_that_can_be_loaded(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ends(capsys, "--reverse", "--bound", "1e-6", "--policy", "fixed.toml")
    assert code == 1
    assert "\npromote 1 operation: the value is then TINY\n" in out
    assert re.search(r"\ncost: 1 operation, -2 converts, -\d+ bytes converted, \d+\.\d\d -> \d+\.\d\d ms a call\n", out)
    policy = Numerics.load("fixed.toml")
    assert out.endswith(policy.to_toml())
    assert str(policy.rules[0]) == "aten.mul.Tensor on float32 at script.py:8: compute = float32  (fixed.toml:7)"
    assert cli.run(["bisect", "script.py:step", "--good", "good.toml", "--bad", "fixed.toml", "--bound", "1e-6"]) == 0


def test_a_metric_of_the_scripts_own(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ends(capsys, "--metric", "worst")
    assert code == 1 and "metric worst" in out and "aten.mul.Tensor  compute float32 -> bfloat16" in out


def test_what_was_measured_is_kept_and_not_measured_again(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(capsys, "--resume", "state.json", "--budget", "4runs")[:2] == (
        1,
        FOUND[: FOUND.index("  good  ")]
        + "  good       not measured\n  bad        not measured\n  bound      not measured\n"
        + "  decisions  2 operations of 4 decided differently\n  runs       4\n"
        + "  stopped    by the budget: what follows is the smallest set known so far\n\n"
        + "the budget ended before good and bad were measured\n",
    )
    assert ends(capsys, "--resume", "state.json")[1] == FOUND.replace("runs       8", "runs       4")
    assert ends(capsys, "--resume", "state.json")[1] == FOUND.replace("runs       8", "runs       0")
    refused = (
        "truecast: this state can't be resumed (state.json); why: it is of another problem: the program, a policy, "
    )
    refused += (
        "the metric, the inputs or the weights differ; help: name another file, or remove this one to start anew\n"
    )
    assert ends(capsys, "--resume", "state.json", "--metric", "worst") == (2, "", refused)
    whole = Path("state.json").read_text()
    Path("state.json").write_text(whole[: len(whole) // 2])
    code, _, err = ends(capsys, "--resume", "state.json")
    assert code == 2
    assert err.startswith("truecast: this state can't be resumed (state.json); why: it is no whole JSON text: ")


def test_a_budget_that_ends_within_the_search(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ends(capsys, "--budget", "6runs")
    assert code == 1
    assert "  stopped    by the budget: what follows is the smallest set known so far\n" in out
    assert "2 operations carry it; without them: 0\n" in out


WRONG = {
    ("--metric", "median"): "there is no metric 'median'; help: one of max_rel, kl, loss, top1, or a function that "
    "script.py defines",
    ("--metric", "words"): "the metric words gave no number; values: a str",
    ("--metric", "top1", "--bound", "-1"): "the good policy itself exceeds the bound; values: 0 under the good policy, "
    "bound -1; help: no set of decisions brings the value below that: choose a larger bound or another good policy",
    ("--budget", "7"): "'7' is no budget; help: seconds, minutes or a number of evaluations: 90s, 5m, 40runs",
    ("--metric", "step"): "the metric step can't be called; values: too many positional arguments; help: a metric is a "
    "function of (result, good result) to a number",
    ("--seed", str(2**64)): f"a seed has 64 bits; values: seed {2**64}",
    ("--resume", "."): "this state can't be resumed (.); why: it is no file; help: name another file, or remove this "
    "one to start anew",
    ("--resume", "x" * 300): f"the state can't be read ({'x' * 300}); why: File name too long",
    ("--policy", "f.toml"): "--policy writes what --reverse finds; help: add --reverse",
    ("--resume", "no/state"): "the state can't be written (no/state); why: No such file or directory",
}


@pytest.mark.parametrize("arguments", list(WRONG), ids=" ".join)
def test_wrong_use(script: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert ends(capsys, *arguments) == (2, "", f"truecast: {WRONG[arguments]}\n")


def test_a_program_that_writes_is_left_as_it_was(script: Path) -> None:
    import torch

    import truecast as tc

    layer, x = torch.nn.BatchNorm1d(4), torch.linspace(0, 1, 12).reshape(3, 4)

    def step(x: torch.Tensor) -> torch.Tensor:
        x.mul_(1.5)
        return layer(x)

    before = {name: value.clone() for name, value in layer.state_dict().items()}, x.clone()
    bad = Numerics.load("bad.toml")
    found = tc.bisect(step, x, good=Numerics.load("good.toml"), bad=bad).bisection
    assert [part.nodes[0].op for part in found.parts] == ["aten.mul.Tensor"]
    assert torch.equal(x, before[1])
    assert all(torch.equal(value, before[0][name]) for name, value in layer.state_dict().items())


def test_a_terminal_sees_each_run(
    script: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    code, out, err = ends(capsys, "--finest", "rule")
    assert code == 1 and out.startswith("bisect 'step'")
    shown = err.split("\r\x1b[K")
    assert shown[:5] == ["", "run 1: 0", "run 2: 0", "run 3: 0", "run 4: 0.001524"] and shown[-1] == ""

"""What the findings about regions, scaling, custom Functions, sums and state say, word for word."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import truecast as tc
from truecast import cli

SOFTMAX = """\
import torch

with torch.autocast("cpu", torch.bfloat16):
    scores = torch.ones(2, 4) @ torch.ones(4, 4)
    torch.softmax(scores, dim=-1)
"""
SOFTMAX_REPORT = """\
info[TC401]: softmax is on no autocast list of cpu, and on that of cuda, privateuse1, xla and neuron
  --> train.py:5:5   (forward)
      5 |     torch.softmax(scores, dim=-1)
        |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ softmax of bfloat16[2,4]
  why: inside the region it runs in bfloat16, the dtype of its operands; under autocast of cuda, privateuse1, xla and \
neuron it runs in float32
  help: where all devices shall agree, convert its operands, softmax(x.to(torch.float32)); \
`truecast numerics diff cuda cpu` prints the lists' differences

1 info in 6 operations
"""
CLIPPED = """\
import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
with torch.autocast("cpu", torch.float16):
    loss = model(torch.ones(1, 2)).float().sum()
scaler.scale(loss).backward()
torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
scaler.step(optimizer)
"""
CLIPPED_REPORT = """\
warning[TC405]: gradients are changed while they are still scaled
  --> train.py:9:1   (forward)
      9 | torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
        | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  origin: train.py:8:1
      8 | scaler.scale(loss).backward()
        | ^^^^^^^^^^^^^^^^^^ the loss is scaled here
  why: a GradScaler multiplies the loss by 65536 at first: a threshold or a learning rate that is meant for the \
gradients meets numbers that are larger by that factor
  help: call scaler.unscale_(optimizer) before it
"""
REGION = """\
import torch

with torch.autocast("cpu", torch.bfloat16):
    batch = torch.ones(2) + 1
"""
REGION_REPORT = """\
warning[TC602]: an autocast region has no effect
  --> train.py:3:1   (forward)
      3 | with torch.autocast("cpu", torch.bfloat16):
        | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ cpu to bfloat16, 2 operations
  why: none of the 2 operations in it had an operand on cpu that its list converts: it is for another device type, or \
the operands have the dtype already
  help: drop it, or name the device type of the tensors: torch.autocast(x.device.type, ...)

1 warning in 2 operations
"""
SUM = """\
import torch

torch.ones(4096, dtype=torch.bfloat16).sum()
"""
SUM_REPORT = """\
warning[TC307]: sum accumulates in bfloat16 under `torch_xla-2.9`
  --> train.py:3:1   (forward)
      3 | torch.ones(4096, dtype=torch.bfloat16).sum()
        | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ 4096 addends: sum of bfloat16[4096]
"""
POLICY = """\
name = "mine"
extends = "cpu"

[[rule]]
module = "*.head"
compute = "float32"
"""
RULE_REPORT = """\
warning[TC605]: a rule of the policy `mine` has no effect: every operation in module *.head
  --> mine.toml:4   (forward)
      4 | [[rule]]
        | ^^^^^^^^ compute = float32
  why: no operation of the program matches it
  help: check its keys: `truecast numerics show` prints the policy
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    tc.set_numerics(None)


@pytest.mark.parametrize(
    ("script", "arguments", "report"),
    [
        (SOFTMAX, (), SOFTMAX_REPORT),
        (CLIPPED, (), CLIPPED_REPORT),
        (REGION, (), REGION_REPORT),
        (SUM, ("--numerics", "torch_xla-2.9"), SUM_REPORT),
        (SUM, (), "nothing found in 2 operations\n"),
        (SUM, ("--numerics", "eager"), "nothing found in 2 operations\n"),
        (SUM, ("--numerics", "mine.toml"), RULE_REPORT),
    ],
)
def test_a_report_begins_word_for_word(
    script: str, arguments: tuple[str, ...], report: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("train.py").write_text(script)
    Path("mine.toml").write_text(POLICY)
    assert cli.run(["explain", "train.py", *arguments]) == 0
    out = capsys.readouterr().out
    assert out[: len(report)] == report


def test_an_unknown_policy_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text(SUM)
    assert cli.run(["explain", "train.py", "--numerics", "neurom"]) == 2
    assert "did you mean 'neuron'?" in capsys.readouterr().err

"""What `truecast explain --migrate` prints, word for word: the story of a user who leaves XLA_USE_BF16=1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import truecast as tc
from tests.messages.test_explain_messages import ROOT, ends, here, validate
from truecast import cli
from truecast.errors import UsageError

__all__ = ["here"]  # a fixture


def story() -> str:
    return (ROOT / "examples" / "flow_matching.py").read_text()


def test_the_story_word_for_word(
    here: Path, capsys: pytest.CaptureFixture[str], golden: Callable[[str, str], None]
) -> None:
    code, out, err = ends(capsys, story(), "--migrate", "xla-use-bf16")
    assert (code, err) == (1, "")
    lines = [line for line in out.splitlines() if not line.startswith("step ")]
    golden("flow_matching.migration", "\n".join(lines) + "\n")


def test_what_was_said_as_an_error_is_said_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = ends(capsys, story(), "--migrate", "xla-use-bf16", "--fake", "--select", "TC1", "--select", "TC702")
    assert [line for line in out.splitlines() if line.startswith("error")] == [
        "error[TC702]: a float32 activation meets a bfloat16 weight, which XLA_USE_BF16=1 hid"
    ]


WIDE = """\
import torch
layer = torch.nn.Linear(4, 4)
layer(torch.ones(2, 4))
"""


def test_nothing_differs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = WIDE.replace("4)", "4, dtype=torch.bfloat16)")
    code, out, _ = ends(capsys, script, "--migrate", "xla-use-bf16")
    assert (code, out.splitlines()[0]) == (0, "line by line: nothing computes otherwise than under XLA_USE_BF16=1")


def test_json_has_the_lines(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, _ = ends(capsys, WIDE, "--migrate", "xla-downcast-bf16", "--json", "r.json", "--fail-on", "warning")
    document = json.loads(Path("r.json").read_text())
    migration = document.pop("migration")
    validate(document)
    assert code == 1 and [f["family"] for f in document["findings"]] == ["migration"] * 2
    assert migration["variable"] == "XLA_DOWNCAST_BF16"
    assert [(line["line"], line["operations"], line["then"], line["now"]) for line in migration["lines"]] == [
        (3, 2, ["bfloat16"], ["float32"])
    ]
    assert migration["lines"][0]["because"] == ["train.py:3", "the parameters"]


def test_sarif_has_the_codes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends(capsys, story(), "--migrate", "xla-use-bf16", "--sarif", "r.sarif")
    (run,) = json.loads(Path("r.sarif").read_text())["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["TC701", "TC702"]


def test_no_such_flag(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text(WIDE)
    assert cli.run(["explain", "--migrate", "bf16", "train.py"]) == 2
    assert "'bf16' is not one of 'xla-use-bf16', 'xla-downcast-bf16'" in capsys.readouterr().err
    with tc.recording() as tape:
        pass
    with pytest.raises(UsageError, match="there is no migration from 'bf16'"):
        tape.explain(migrate="bf16")

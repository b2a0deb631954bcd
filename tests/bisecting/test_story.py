"""The example that replays the change to `mul`, in a small form: what it prints is what the tools found."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import truecast as tc

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def story() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        import mul_regression

        yield mul_regression


def test_the_audit_counts_three_converts_for_each_mul_and_then_none(story: Any) -> None:
    torch.manual_seed(0)
    model, tokens = story.llama(1, 16), torch.randint(0, 256, (1, 4))
    programs = {name: tc.lower(model, tokens, numerics=name) for name in (story.OLD, story.NEW)}
    old, new = (tc.audit(program) for program in programs.values())
    lines = story.mul_converts(programs[story.OLD], old, new)
    assert {(before, after) for _, _, before, after in lines} == {(3, 0)}
    # Norm weights: two in the layer and the last one; rotary: two products each of q and k; the gate of the MLP.
    assert [count for _, count, _, _ in lines] == [3, 2, 2, 1]
    assert all(line.startswith("modeling_llama.py:") for line, _, _, _ in lines)


def test_only_a_target_that_fuses_computes_otherwise(story: Any) -> None:
    torch.manual_seed(0)
    model, tokens = story.llama(1, 32), torch.randint(0, 256, (1, 8))
    same = tc.bisect(model, tokens, good=story.OLD, bad=story.NEW).bisection
    assert same.bad == 0 and not same.regressed
    found = tc.bisect(model, tokens, good=story.fused(story.OLD), bad=story.fused(story.NEW)).bisection
    assert {node.op for part in found.parts for node in part.nodes} == {"aten.mul.Tensor"}
    # The norm's weight multiplies what was rounded, and is rounded: one product, the same bits.
    assert not any("RMSNorm" in node.site.function for part in found.parts for node in part.nodes)


@pytest.mark.slow
def test_the_small_form_runs_to_its_end() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples/mul_regression.py"), "--small"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert re.search(r"\n  3 -> 0  modeling_llama\.py:\d+  \(5 operations\)\n", run.stdout)
    assert "  0 of 94 values differ\n" in run.stdout
    assert "bad  aten.mul.Tensor on narrow: compute = same, rounding = region\n" in run.stdout
    assert "gate 'Logits' under torch_xla-2.10 (baseline: torch_xla-2.9): WORSE than gate.toml\n" in run.stdout
    assert (
        len(re.findall(r"converts, +\d+\.\d MB through them, +\d+\.\d\d ms of processor time a step", run.stdout)) == 2
    )

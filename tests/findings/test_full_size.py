"""Full-size models on fake tensors: the published widths with few layers here, all layers where slow tests run."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

import truecast as tc
from bench.full_size import GIGABYTES, RUNS, SECONDS, measure
from truecast.report.report import Report

SCRIPTS = Path(__file__).parents[2] / "examples" / "full_size"


def explained(script: str, *arguments: str, layers: int, monkeypatch: pytest.MonkeyPatch) -> Report:
    names = runpy.run_path(str(SCRIPTS / script))
    names["CONFIG"].num_hidden_layers = layers
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    with tc.recording(fake=True) as tape:
        names["main"]()
    return tape.explain()


def test_a_planted_gate_is_one_error_with_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    report = explained("llama_70b.py", "1", layers=4, monkeypatch=monkeypatch)
    (error,) = report.at_least("error")
    (origin,) = [place for place in error.places if place.role == "origin"]
    assert error.code == "TC101" and Path(origin.site.file).name == "llama_70b.py"
    assert origin.site.expression == "hidden * gate"
    assert error.places[0].site.module == "model.layers.2.self_attn.q_proj"
    assert error.count == 2 * 5 + 1  # q, k, v, gate and up of two layers, and the head; o and down get what these give
    assert error.edit is not None and error.edit.text.endswith("(hidden * gate).to(hidden.dtype))")


@pytest.mark.parametrize("script", ["llama_70b.py", "mixtral_8x22b.py"])
def test_a_correct_model_has_no_error(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = explained(script, layers=2, monkeypatch=monkeypatch)
    assert [f.code for f in report.at_least("warning")] == ["TC501"]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "codes", "name"), RUNS, ids=[name for _, _, name in RUNS])
def test_the_full_size_within_the_bounds(arguments: tuple[str, ...], codes: list[str], name: str) -> None:
    found = measure(arguments)
    assert found.codes == codes
    assert found.seconds < SECONDS and found.gigabytes < GIGABYTES, name

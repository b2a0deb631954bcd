"""No false alarm: a training step of real model classes that is right gives no error, in float32, bfloat16 and under
autocast; the warnings are those that docs/evidence/clean-models.md justifies."""

from __future__ import annotations

import pytest
import torch

import truecast as tc
from tests.models.zoo import ZOO
from truecast.report.report import Report

# By mode, then model: the codes of the warnings, each read and justified.
WARNINGS: dict[str, dict[str, list[str]]] = {
    "float32": {},
    "bfloat16": {
        **{name: ["TC501"] for name in ZOO},
        "llama": ["TC302", "TC501"],
        "mixtral": ["TC302", "TC501"],
        "mamba": ["TC501", "TC601"],
    },
    "autocast": {
        "mixtral": ["TC201"],
        "t5": ["TC301"],
        "mamba": ["TC301"],
        "wan": ["TC301"],
    },
}


def training_step(name: str, mode: str) -> Report:
    torch.manual_seed(0)
    module, loss_of = ZOO[name]()
    if mode == "bfloat16":
        module = module.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    with tc.recording() as tape:
        with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
            loss = loss_of(module)
        loss.backward()
        optimizer.step()
        return tape.explain()


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("mode", WARNINGS)
def test_a_correct_step_has_no_errors(mode: str, name: str) -> None:
    report = training_step(name, mode)
    assert report.operations > 100, "the step was recorded"
    assert [f for f in report.findings if f.severity == "error"] == []
    warnings = sorted(f.code for f in report.findings if f.severity == "warning")
    assert warnings == WARNINGS[mode].get(name, []), str(report)

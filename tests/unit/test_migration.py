"""What a global downcast computed beside what a program computes now, on small recordings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import truecast as tc
from truecast import dtypes
from truecast.diagnose.flow import Flow
from truecast.diagnose.migration import FLAGS, Migration
from truecast.numerics.numerics import Numerics

BF16 = torch.bfloat16


def migration(program: Callable[[], object], flag: str = "xla-use-bf16") -> Migration:
    with tc.recording() as tape:
        program()
    return Migration(Flow(tape.graph, tape._tape.observations), flag)


def changed(program: Callable[[], object], flag: str = "xla-use-bf16") -> list[tuple[str, str, str]]:
    return [(c.node.op.split(".")[1], c.then.name, c.now.name) for c in migration(program, flag).changes]


WIDE, NARROW = torch.ones(2, 3), torch.ones(2, 3, dtype=BF16)


@pytest.mark.parametrize(
    ("program", "flag", "found"),
    (
        (lambda: WIDE + WIDE, "xla-use-bf16", [("add", "bfloat16", "float32")]),
        (lambda: NARROW * NARROW, "xla-use-bf16", []),  # opmath alone: the same bits (law N3)
        (lambda: WIDE.t(), "xla-use-bf16", []),
        (lambda: WIDE.half(), "xla-use-bf16", []),
        (lambda: WIDE > 0.5, "xla-use-bf16", [("gt", "bfloat16", "float32")]),
        (lambda: WIDE.argmax(), "xla-use-bf16", [("argmax", "bfloat16", "float32")]),
        (lambda: NARROW.argmax(), "xla-use-bf16", []),
        (lambda: NARROW.float(), "xla-use-bf16", [("_to_copy", "bfloat16", "float32")]),
        (lambda: NARROW.double(), "xla-use-bf16", [("_to_copy", "bfloat16", "float64")]),
        (lambda: NARROW.double(), "xla-downcast-bf16", [("_to_copy", "float32", "float64")]),
        (lambda: torch.empty(3), "xla-use-bf16", []),
    ),
)
def test_what_counts_as_a_change(program: Callable[[], object], flag: str, found: list[tuple[str, str, str]]) -> None:
    assert changed(program, flag) == found


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_maps_as_its_preset_does(flag: str) -> None:
    found = migration(lambda: None, flag)
    for a, b in Numerics.preset(FLAGS[flag][1]).storage:
        assert found.held(dtypes.of(a)) is dtypes.of(b)
    assert found.held(dtypes.float16) is dtypes.float16 and found.held(dtypes.int64) is dtypes.int64


def test_the_host_fills_parameters() -> None:
    def program() -> None:
        layer = nn.Linear(3, 3).to(BF16)
        layer(NARROW)

    assert changed(program) == []


def test_a_step_count_stays_on_the_host_and_a_master_copy_does_not() -> None:
    def program() -> None:
        layer = nn.Linear(3, 3, dtype=BF16)
        optimizer = torch.optim.Adam(layer.parameters())
        layer(NARROW).sum().backward()
        optimizer.step()

    assert changed(program) == []
    layer = nn.Linear(3, 3)
    optimizer = torch.optim.Adam(layer.parameters())

    def wide() -> None:
        layer(WIDE).sum().backward()
        optimizer.step()

    (cause,) = migration(wide).causes
    assert cause.is_parameter
    assert {c.node.site.phase for c in cause.changes} >= {"forward", "optimizer"}


def test_a_gradient_belongs_to_its_forward_line() -> None:
    weight = torch.ones(3, dtype=BF16, requires_grad=True)

    def program() -> None:
        wide = weight.float()
        (wide * wide).to(BF16).sum().backward()

    found = migration(program)
    (cause,) = found.causes
    assert {c.node.site.phase for c in cause.changes} == {"forward", "backward"}
    first, second = found.lines
    assert second.site.line == first.site.line + 1
    assert first.because == second.because == (f"test_migration.py:{first.site.line}",)


def test_what_parameters_widen_is_theirs() -> None:
    layer = nn.Linear(3, 3)
    found = migration(lambda: layer(torch.ones(2, 3)).relu())
    assert [(c.is_parameter, len(c.changes)) for c in found.causes] == [(False, 1), (True, 2)]


def test_an_operations_own_statistics_are_no_change() -> None:
    x = torch.ones(1, 2, 4, 8, dtype=BF16, requires_grad=True)

    def program() -> None:
        nn.functional.scaled_dot_product_attention(x, x, x).sum().backward()  # with a logsumexp in float32

    assert changed(program) == []

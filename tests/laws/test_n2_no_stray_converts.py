"""Law N2: a convert appears in a Program only where the program or the Plan says so."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import truecast as tc
from truecast import dtypes
from truecast.graph import Graph, Input, Node, Output, Value
from truecast.lowering.program import Program

PRESETS = ("eager", "cpu", "cuda", "tpu", "neuron", "torch_xla-2.9", "torch_xla-2.10")


def converts(program: Program) -> list[tuple[str, str]]:
    """(from, to) of each convert in the StableHLO."""
    pattern = r"stablehlo\.convert %\S+ : \(tensor<(?:\d+x)*(\w+)>\) -> tensor<(?:\d+x)*(\w+)>"
    found = re.findall(pattern, program.stablehlo)
    assert len(found) == program.stablehlo.count("stablehlo.convert"), "a convert in a form this test does not read"
    return found


def elementwise_chain(operations: list[str], dtype: dtypes.DType) -> Graph:
    """x = op(x, y), for each operation."""
    x, y = Value("x", dtype, (4,)), Value("y", dtype, (4,))
    nodes: list[Node] = []
    last = x
    for i, op in enumerate(operations):
        out = Value(f"v{i}", dtype, (4,))
        nodes.append(Node(op, (last, y) if op.endswith(".Tensor") else (last,), (), (out,)))
        last = out
    return Graph("chain", (Input(x), Input(y)), tuple(nodes), (Output(last),)).verify()


# For the bf16 product of two tensors: converts up to float32 and down to bfloat16.
MULTIPLY = {
    "eager": (2, 1),
    "cpu": (2, 1),
    "cuda": (2, 1),
    "tpu": (0, 0),
    "neuron": (2, 1),
    "torch_xla-2.9": (2, 1),
    "torch_xla-2.10": (0, 0),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_n2_the_bfloat16_multiply(preset: str) -> None:
    found = converts(tc.lower(elementwise_chain(["aten.mul.Tensor"], dtypes.bfloat16), numerics=preset))
    up, down = MULTIPLY[preset]
    assert found == [("bf16", "f32")] * up + [("f32", "bf16")] * down


PROGRAMS: dict[str, Callable[..., object]] = {
    "arithmetic": lambda x, y: (x * y + y / 2 - x.exp()).relu(),
    "product": lambda x, y: torch.mm(x, y.t()),
    "sums": lambda x, y: (x.sum(), y.mean(0), x.amax(1)),
    "softmax": lambda x, y: torch.softmax(x, -1) * torch.sigmoid(y),
    "movement": lambda x, y: torch.cat((x, y.flip(0)))[1:3].t(),
}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_n2_a_float32_program_has_none(name: str, preset: str) -> None:
    program = tc.lower(PROGRAMS[name], torch.randn(4, 8), torch.randn(4, 8), numerics=preset)
    # The TPU's matrix unit takes bfloat16 operands, and the preset says so (law N5).
    said_by_the_plan = [("f32", "bf16")] * 2 if (name, preset) == ("product", "tpu") else []
    assert converts(program) == said_by_the_plan


BINARY = st.sampled_from(["aten.mul.Tensor", "aten.add.Tensor", "aten.div.Tensor", "aten.maximum.default"])
UNARY = st.sampled_from(["aten.neg.default", "aten.exp.default", "aten.tanh.default", "aten.relu.default"])


@given(operations=st.lists(st.one_of(UNARY, BINARY.filter(lambda op: op.endswith(".Tensor"))), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_n2_computing_in_the_operands_own_dtype_needs_none(operations: list[str]) -> None:
    native = tc.Numerics("native").with_rule(kind="elementwise", compute="same")
    assert converts(tc.lower(elementwise_chain(operations, dtypes.bfloat16), numerics=native)) == []


@given(count=st.integers(1, 6))
@settings(max_examples=6, deadline=None)
def test_n2_opmath_converts_each_operand_up_and_each_result_down(count: int) -> None:
    program = tc.lower(elementwise_chain(["aten.mul.Tensor"] * count, dtypes.bfloat16), numerics="eager")
    found = converts(program)
    assert found.count(("f32", "bf16")) == count
    assert found.count(("bf16", "f32")) == 2 * count
    assert len(found) == 3 * count


def test_n2_a_region_converts_at_its_borders_only() -> None:
    region = tc.Numerics("region").with_rule(kind="elementwise", compute="opmath", rounding="region")
    found = converts(tc.lower(elementwise_chain(["aten.mul.Tensor"] * 5, dtypes.bfloat16), numerics=region))
    assert set(found) == {("bf16", "f32"), ("f32", "bf16")}
    assert found.count(("f32", "bf16")) == 1, "one rounding, at the region's exit"


@pytest.mark.parametrize("preset", ["eager", "tpu"])
def test_n2_the_programs_own_casts_are_there(preset: str) -> None:
    program = tc.lower(lambda x: x.float().to(torch.float16), torch.randn(4).bfloat16(), numerics=preset)
    assert converts(program) == [("bf16", "f32"), ("f32", "f16")]


@pytest.mark.parametrize("preset", PRESETS)
def test_n2_every_convert_leads_back_to_its_node(preset: str) -> None:
    program = tc.lower(PROGRAMS["arithmetic"], torch.randn(4, 8).half(), torch.randn(4, 8).half(), numerics=preset)
    text = program.stablehlo_with_locations
    names = dict(re.findall(r'^(#loc\d*) = loc\("([^"]*)"', text, re.MULTILINE))
    used = re.findall(r"stablehlo\.convert .*loc\((#loc\d*)\)", text)
    assert len(used) == len(converts(program))
    assert all(program.node_of(names[loc]) is not None for loc in used)

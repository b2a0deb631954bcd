"""docs/numerics.md says what is so: its tests exist, its examples run, its tables are the data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lowered import chain
from truecast import dtypes
from truecast.graph import Value
from truecast.numerics.algorithms import _ROWS
from truecast.numerics.numerics import KEYS, POLICY_FIELDS, SETTINGS, Numerics
from truecast.numerics.plan import Decision, resolve
from truecast.numerics.policy_text import preset_names
from truecast.numerics.targets import TARGETS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/numerics.md").read_text(encoding="utf-8")


def rows(*heading: str) -> list[list[str]]:
    """The rows of the table that has this heading, each as its cells without backticks."""
    lines = PAGE.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {' | '.join(heading)} |"))
    table = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return table


def test_each_law_has_tests_that_bear_its_number() -> None:
    laws = rows("law", "what it says")
    assert [law[0] for law in laws] == [f"N{n}" for n in range(1, 13)]
    for number, _, files in laws:
        for file in files.split(", "):
            path = ROOT / file
            assert path.exists(), f"{number} names {file}"
            named = rf"(?<![a-zA-Z0-9])[nN]{number[1:]}(?!\d)"
            assert re.search(named, path.name + path.read_text()), f"{file} does not bear the number {number}"


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_python_examples_run(example: str) -> None:
    exec(compile(example, "docs/numerics.md", "exec"), {})


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_toml_examples_are_policies(example: str) -> None:
    policy = Numerics.from_toml(example, "example.toml")
    assert policy.rules[2:] == Numerics.preset("neuron").rules


def test_the_keys_and_settings_are_all_there() -> None:
    assert tuple(row[0] for row in rows("key", "matches")) == KEYS
    assert tuple(row[0] for row in rows("setting", "says")) == SETTINGS
    top = {name for row in rows("at the top", "says") for name in re.findall(r"[a-z_]+", row[0])}
    assert top == {*POLICY_FIELDS, "extends"}


def test_the_algorithms_are_the_data() -> None:
    expected = [
        [
            *(row.name, str(row.passes), str(row.accumulate), ", ".join(map(str, row.inputs))),
            ", ".join(t for t in TARGETS if t in dict(row.missing)),
        ]
        for row in _ROWS
    ]
    assert [[name, *rest] for name, _, *rest in rows("name", "operands")] == expected
    for row, (_, operands, *_) in zip(_ROWS, rows("name", "operands"), strict=True):
        assert f"({row.bits} bits)" in operands


def test_the_presets_are_the_data() -> None:
    table = rows("preset", "what it reproduces")
    assert sorted(row[0] for row in table) == list(preset_names())
    for name, _, multiply, total, matmul, rounding in table:
        policy = Numerics.preset(name)
        assert str(_decision(policy, "aten.mul.Tensor", dtypes.bfloat16).compute) == multiply, name
        assert str(_decision(policy, "aten.cumsum.default", dtypes.bfloat16).accumulate) == total, name
        assert _decision(policy, "aten.mul.Tensor", dtypes.bfloat16).rounding == rounding, name
        product = _decision(policy, "aten.mm.default", dtypes.float32)
        one_pass = product.algorithm == "bf16_bf16_f32"
        assert ("one bfloat16 pass" if one_pass else str(product.compute)) == matmul.split(" (")[0], name


def _decision(policy: Numerics, op: str, dtype: dtypes.DType) -> Decision:
    names = ("a",) if op == "aten.cumsum.default" else ("a", "b")
    graph = chain((op, names), inputs={n: Value(n, dtype, (4, 4)) for n in names}, outputs=("v0",))
    return resolve(graph, policy).decisions[0]

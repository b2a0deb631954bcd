"""What a gate calls worse, and its baseline file: it reads back as it was written, or is refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truecast.diagnose.gate.baseline import read, render, write
from truecast.diagnose.gate.figures import COUNTED, Drift, Figures, Line, judge, merged
from truecast.errors import UsageError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LINES = st.builds(
    Line,
    file=st.sampled_from(["a.py", "b.py"]),
    function=st.sampled_from(["f", "Model.forward"]),
    text=TEXT,
    op=st.sampled_from(["aten.mul.Tensor", "aten.sum.default"]),
    operations=st.integers(1, 9),
    compute=st.sampled_from(["float32", "bfloat16", "float16", ""]),
    accumulate=st.sampled_from(["float32", "bfloat16", ""]),
    rule=TEXT,
    converts=st.integers(0, 9),
    bytes=st.integers(0, 999),
    narrow_sums=st.integers(0, 3),
    float64=st.integers(0, 3),
)
DRIFTS = st.none() | st.builds(
    Drift, st.just("float64"), st.just("region"), st.floats(0, 1, width=64), st.floats(0, 1, width=64)
)
FIGURES = st.builds(
    Figures,
    st.just("step"),
    st.just("neuron"),
    st.just("0123456789abcdef"),
    st.lists(LINES, max_size=5).map(merged),
    DRIFTS,
)

LINE = Line("m.py", "f", "x * y", "aten.mul.Tensor", 2, "float32", "", "rule", converts=6, bytes=120)
BASE = Figures("step", "neuron", "0", (LINE,), Drift("float64", "region", 0.01, 0.005))


def ways(now: Figures, slack: float = 0.1) -> list[tuple[str, object, object]]:
    return [(w.what, w.before, w.after) for w in judge(BASE, now, slack).worse]


@given(FIGURES)
def test_nothing_is_worse_than_itself(figures: Figures) -> None:
    verdict = judge(figures, figures, 0.0)
    assert verdict.worse == () and verdict.better == () and not verdict.plan_changed


@pytest.mark.parametrize("name", COUNTED)
def test_more_is_worse_and_less_is_better(name: str) -> None:
    old = getattr(LINE, name)
    now = replace(BASE, lines=(replace(LINE, **{name: old + 1}),))
    assert ways(now) == [(name, old, old + 1)]
    assert judge(now, BASE, 0.1).worse == ()
    assert judge(now, BASE, 0.1).better == ((name, old + 1, old),)


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        ("float32", "bfloat16", True),
        ("bfloat16", "float32", False),
        ("bfloat16", "float16", True),  # fewer bits in the exponent
        ("float16", "bfloat16", True),  # fewer bits in the significand
        ("float64", "float32", True),
        ("float32", "float32", False),
        ("", "bfloat16", False),
    ],
)
def test_narrower_arithmetic_is_worse(before: str, after: str, worse: bool) -> None:
    one, other = (replace(BASE, lines=(replace(LINE, compute=dtype),)) for dtype in (before, after))
    assert [w.what for w in judge(one, other, 0.1).worse] == ["compute"] * worse


def test_the_error_may_grow_by_the_slack() -> None:
    def drifted(error: float) -> Figures:
        return replace(BASE, drift=Drift("float64", "region", error, 0.005))

    assert ways(drifted(0.0109)) == []
    assert ways(drifted(0.0111)) == [("drift", 0.01, 0.0111)]
    assert ways(drifted(0.0109), slack=0.0) == [("drift", 0.01, 0.0109)]
    assert [w[0] for w in ways(drifted(float("nan")))] == ["drift"]


def test_a_line_that_was_only_rewritten_is_no_worse() -> None:
    assert ways(replace(BASE, lines=(replace(LINE, text="y * x"),))) == []
    more = replace(LINE, text="y * x", converts=7)
    assert ways(replace(BASE, lines=(more,))) == [("converts", 0, 7)]


def test_equal_lines_are_added_up_and_the_narrowest_counts() -> None:
    narrow = replace(LINE, compute="bfloat16", rule="narrow", converts=1, bytes=4)
    (line,) = merged([LINE, narrow])
    assert (line.operations, line.converts, line.bytes, line.compute, line.rule) == (4, 7, 124, "bfloat16", "narrow")
    assert merged([narrow, LINE]) == (line,)


@given(FIGURES)
def test_a_baseline_reads_back_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, figures: Figures) -> None:
    path = tmp_path_factory.mktemp("gate") / "gate.toml"
    write(path, figures, "1.0")
    assert read(path, "1.0") == figures
    assert path.read_text("utf-8") == render(figures, "1.0")


def test_a_baseline_that_was_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    figures = replace(BASE, lines=(LINE, replace(LINE, op="aten.sum.default", narrow_sums=1)))
    text, path = render(figures, "1.0"), tmp_path / "gate.toml"
    refused = 0
    for end in range(len(text)):
        path.write_text(text[:end])
        try:
            assert read(path, "1.0") == figures, end
        except UsageError as error:
            assert error.what == "this baseline can't be used" and error.why
            refused += 1
    assert refused >= len(text) - 1  # without the last line end nothing is missing


REFUSED = {
    'truecast = "1.0"': ('truecast = "0.9"', "it was written by truecast 0.9, this is 1.0"),
    "schema = 1": ("schema = 2", "it has schema 2, this version reads 1"),
    "rows = 1": ("rows = 3", "it was cut off: it has 1 of 3 lines"),
    "operations = 2": ('operations = "2"', "a line has no operations"),
    'plan = "0"': ("", "the baseline has no plan"),
    "error = 0.01": ("eror = 0.01", "[drift] has no error"),
}


@pytest.mark.parametrize("part", list(REFUSED))
def test_a_baseline_that_says_something_else_is_refused_with_the_reason(tmp_path: Path, part: str) -> None:
    replacement, why = REFUSED[part]
    path, text = tmp_path / "gate.toml", render(BASE, "1.0")
    assert part in text
    path.write_text(text.replace(part, replacement))
    with pytest.raises(UsageError) as error:
        read(path, "1.0")
    assert (error.value.what, error.value.where, error.value.why) == ("this baseline can't be used", path, why)
    assert error.value.help == "--update writes a new one; review the difference"


def test_the_file_is_one_row_for_each_line_of_source() -> None:
    assert render(BASE, "1.0") == (
        "# What `truecast gate` holds this program to. --update rewrites it: review the difference.\n"
        'schema = 1\ntruecast = "1.0"\nprogram = "step"\nnumerics = "neuron"\nplan = "0"\nrows = 1\n'
        '\n[drift]\nreference = "float64"\nrounding = "region"\nerror = 0.01\nhonest = 0.005\n'
        '\n[lines]\nall = [\n  { file = "m.py", function = "f", text = "x * y", op = "aten.mul.Tensor", '
        'operations = 2, compute = "float32", rule = "rule", converts = 6, bytes = 120 },\n]\n'
    )

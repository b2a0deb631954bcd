"""The arithmetic of a drift, on numbers computed by hand and with fractions."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truecast import dtypes
from truecast.diagnose import drift
from truecast.diagnose.drift import Decision, Error, Measurements, NodeDrift, Step, Training
from truecast.errors import UsageError
from truecast.graph import Node, Value
from truecast.report import drift_plot
from truecast.report.drift import Drift
from truecast.sites import Site

NOTHING = Error(0, 0, 0, 0, 0, 0, 0)


def error(rms: float, strays: int = 0) -> Error:
    return Error(rms, rms, rms, 0, 0, 0, rms, strays)


def node(name: str, index: int, a: float, b: float, honest: float, **more: Any) -> NodeDrift:
    site = Site("m.py", index + 1, module=more.pop("module", ""), phase=more.pop("phase", "forward"))
    op = more.pop("op", "aten.mul.Tensor")
    differing = more.pop("differing", 0.0)
    strays = more.pop("strays", 0)
    errors = error(a), error(b, strays), error(honest)
    return NodeDrift(name, op, index, site, dtypes.bfloat16, (4,), *errors, differing, 0.0)


def measured(*nodes: NodeDrift, **more: Any) -> Measurements:
    return Measurements("net", "cpu", "neuron", "float64", nodes, **more)


def test_errors_of_four_bfloat16_values() -> None:
    # In [1, 2) a bfloat16's unit in the last place is 2^-7, in [256, 512) 2^1.
    reference = np.array([1.0, 1.5, 300.0, 0.0])
    values = reference + np.array([2**-7, 2**-8, 3.0, 0.0])
    got = drift.measure(values, reference, dtypes.bfloat16)
    assert (got.ulps_median, got.ulps_p99, got.ulps_largest) == (0.5, 1.5, 1.5)
    assert got.largest == 0.01  # 3 / 300
    assert got.median == pytest.approx(2**-8 / 1.5)
    exact = Fraction(1, 2**14) + Fraction(1, 2**16) + 9
    assert got.rms**2 == pytest.approx(float(exact / (1 + Fraction(9, 4) + 90000)), rel=1e-12)
    assert got.strays == 0


@given(
    st.sampled_from(("bfloat16", "float16", "float32")),
    st.lists(st.floats(2.0**-14, 6e4), min_size=1, max_size=50),
    st.sampled_from((-1.0, 1.0)),
)
def test_a_correctly_rounded_value_is_off_by_half_a_unit_at_most(name: str, numbers: list[float], sign: float) -> None:
    dtype = dtypes.BY_NAME[name]
    exact = sign * np.array(numbers)
    got = drift.measure(exact.astype(dtypes.numpy_dtype(dtype)).astype(np.float64), exact, dtype)
    assert got.ulps_largest <= 0.5
    assert got.largest <= 2.0 ** -(dtype.mantissa_bits + 1)
    assert got.rms <= 2.0 ** -(dtype.mantissa_bits + 1)


def test_below_the_smallest_normal_number_the_unit_stays() -> None:
    smallest = 2.0**-14  # float16
    got = drift.measure(np.array([0.0]), np.array([smallest / 1024]), dtypes.float16)
    assert (got.ulps_largest, got.largest) == (1.0, 2.0**-10)


def test_a_quantile_is_the_least_element_that_so_many_are_not_above() -> None:
    reference = np.ones(200)
    got = drift.measure(1 + np.arange(1, 201) / 1024, reference, dtypes.float32)
    assert (got.median, got.p99, got.largest) == (100 / 1024, 198 / 1024, 200 / 1024)


def test_non_finite_elements_are_counted_and_left_out() -> None:
    inf, nan = math.inf, math.nan
    reference = np.array([1.0, inf, nan, inf, 2.0, inf])
    values = np.array([1.0, inf, nan, 3.0, nan, -inf])
    assert drift.measure(values, reference, dtypes.float32) == Error(0, 0, 0, 0, 0, 0, 0, 3)


def test_large_and_small_numbers_neither_overflow_nor_vanish() -> None:
    for scale in (1e300, 1e-300):
        got = drift.measure(np.array([1.5, 1.0]) * scale, np.array([1.0, 1.0]) * scale, dtypes.float64)
        assert got.rms == pytest.approx(math.sqrt(0.125))


def test_an_error_where_the_reference_is_zero_is_infinite() -> None:
    got = drift.measure(np.array([1.0]), np.array([0.0]), dtypes.bfloat16)
    assert got.rms == math.inf and drift.ratio(got, error(0.5)) == math.inf


def test_what_differs_and_how_far() -> None:
    a, b = np.array([1.0, math.nan, 3.0, 4.0]), np.array([1.0, math.nan, 5.0, 4.0])
    assert drift.differing(a, b) == 0.25
    assert drift.apart(a, b, np.array([1.0, 1.0, 2.0, 2.0])) == pytest.approx(2 / 3)
    assert drift.differing(a[:0], b[:0]) == 0


def topk(dim: int) -> Node:
    x, values = Value("x", dtypes.float32, (2, 4)), Value("v", dtypes.float32, (2, 2))
    return Node("aten.topk.default", (x, 2, dim), (), (values, Value("i", dtypes.int64, (2, 2))))


def test_topk_flips_by_what_is_chosen_not_by_its_order() -> None:
    a = np.array([[0, 1], [2, 3]])
    assert drift.flips(topk(-1), a, np.array([[1, 0], [3, 2]])) == 0
    assert drift.flips(topk(-1), a, np.array([[1, 3], [3, 2]])) == 0.25
    assert drift.flips(topk(-1), a, np.array([[2, 3], [0, 1]])) == 1
    assert drift.flips(topk(0), a.T, np.array([[1, 0], [3, 2]]).T) == 0


def test_other_decisions_flip_element_by_element() -> None:
    x, y = Value("x", dtypes.float32, (4,)), Value("y", dtypes.bool_, (4,))
    node = Node("aten.gt.Scalar", (x, 0), (), (y,))
    assert drift.decides(node)
    assert drift.flips(node, np.array([1, 0, 1, 1], bool), np.array([1, 1, 1, 0], bool)) == 0.5


def test_comparing_integers_decides_nothing() -> None:
    x, y = Value("x", dtypes.int64, (4,)), Value("y", dtypes.bool_, (4,))
    assert not drift.decides(Node("aten.gt.Scalar", (x, 0), (), (y,)))


LAYERS = measured(
    node("e", 0, 0, 0, 0, module="embed"),
    *(
        node(f"{name}{i}", 1 + 2 * i + j, base * 2**i, 2 * base * 4**i, base * 2**i, module=f"layers.{i}{inner}")
        for i in range(3)
        for j, (name, inner, base) in enumerate((("m", ".mlp", 2**-8), ("o", "", 2**-9)))
    ),
    node("r", 7, 2**-8, 2**-5, 2**-9, differing=0.5, op="aten.mm.default"),
    decisions=(Decision("t", "aten.argmax.default", 6, Site("m.py", 9), 8, 0.125, 0.25, 0.0, 0.0),),
    results=("r",),
)


def test_modules_hold_what_is_inside_them_and_end_with_their_last_value() -> None:
    found = {m.module: (m.values, m.output.name, m.worst.name) for m in LAYERS.modules()}
    assert found["layers.2"] == (2, "o2", "m2")
    assert found["layers"] == (6, "o2", "m2")
    assert found[""] == (8, "r", "r")
    assert list(found)[:3] == ["", "embed", "layers"]


def test_a_count_is_no_modules_output() -> None:
    (module,) = measured(node("loss", 0, 0.5, 0.5, 0.25), node("count", 1, 0, 0, 0)).modules()
    assert module.output.name == "loss"


def test_growth_is_the_factor_from_block_to_block() -> None:
    growth = LAYERS.growth()
    assert growth is not None
    assert (growth.blocks, growth.count, growth.a, growth.b, growth.honest) == ("layers.*", 3, 2.0, 4.0, 2.0)


def test_blocks_have_equal_operations() -> None:
    unequal = measured(node("a", 0, 1, 1, 1, module="0"), node("b", 1, 1, 1, 1, module="1", op="aten.gelu.default"))
    assert unequal.blocks() == () and unequal.growth() is None


def test_operations_with_the_largest_ratio_come_first() -> None:
    first, second = LAYERS.ops()
    assert (first.op, first.values, first.ratio_b) == ("aten.mm.default", 1, 16.0)
    assert (second.op, second.values, second.ratio_a, second.ratio_b) == ("aten.mul.Tensor", 7, 1.0, 4.0)
    assert (second.error_a, second.error_b) == (2**-8, 2**-6)


def test_a_decision_may_be_where_they_part_first() -> None:
    assert LAYERS.first_parting is LAYERS.decisions[0]
    assert measured(node("a", 0, 1, 1, 1)).first_parting is None


def test_bounds_that_are_broken() -> None:
    shown = Drift(LAYERS)
    assert shown.gate(ratio=17, result_ratio=16, flips=0.125) == ()
    (breach,) = shown.gate(result_ratio=15)
    assert str(breach) == (
        "the error of the result r (aten.mm.default) under neuron is 16.00 times the honest one; at most 15 may be\n"
        "  --> m.py:8"
    )
    (breach,) = shown.gate(flips=0.1)
    assert str(breach) == (
        "12.50% of the decision t (aten.argmax.default) differ between cpu and neuron; at most 10.00% may\n  --> m.py:9"
    )
    assert len(shown.gate(ratio=3.9)) == 5  # o1, m1, o2, m2 and the result


@pytest.mark.parametrize("bound", ["result_ratio", "ratio", "flips", "parameters"])
def test_a_bound_that_nothing_breaks_is_refused(bound: str) -> None:
    with pytest.raises(UsageError, match=f"the bound {bound} is not a number"):
        Drift(LAYERS).gate(**{bound: float("nan")})


def test_an_error_in_an_exact_value_breaks_every_bound() -> None:
    (breach,) = Drift(measured(node("a", 0, 0, 2**-8, 0))).gate(ratio=1000)
    assert breach.what.startswith("the error of the value a (aten.mul.Tensor) under neuron is in an exact value")


def test_what_is_not_finite_under_b_alone_is_always_told() -> None:
    (breach,) = Drift(measured(node("a", 0, 0, 0, 0, strays=2))).gate()
    assert breach.what == "2 elements of a (aten.mul.Tensor) are not finite under neuron alone"


def test_parameters_have_a_bound() -> None:
    training = Training((Step(1.0, 1.5, 1.25, 1.0, 0.125, 0.5, 0.125),), ())
    shown = Drift(measured(node("a", 0, 1, 1, 1), training=training))
    assert shown.gate(parameters=0.5) == ()
    (breach,) = shown.gate(parameters=0.25)
    assert breach.what == ("the parameters under neuron are 0.5 of their way off after 1 steps; at most 0.25 may be")
    assert shown.table("step").splitlines()[-1].split() == ["1", "1", "1.5", "1.25", "1", "0.125", "0.5", "0.125"]


SUMMARY = """\
net: A = cpu, B = neuron, against float64 (8 values)
  result r bfloat16[4]: error A 0.00391 (2 x honest), B 0.0312 (16 x honest)
  A and B part first at aten.argmax.default, m.py:9: 12% of t differ
  growth along 3 blocks layers.*, from one to the next: A x2, B x4, honest x2
  1 of 1 discrete decisions differ between A and B
"""


def test_a_person_reads_a_summary_and_tables() -> None:
    text = Drift(LAYERS).render()
    assert text.startswith(SUMMARY)
    row = next(line for line in text.splitlines() if line.startswith("layers.2 "))
    assert row.split() == "layers.2 2 0.00781 0.0625 0.00781 1 8 0 to 0 0 to 0 0".split()
    assert "\x1b[" in Drift(LAYERS).render(color=True) and "\x1b[" not in text
    assert all(len(line) <= 80 for line in Drift(LAYERS).table("op", 80).splitlines())


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no table by 'layer'"):
        Drift(LAYERS).table("layer")  # type: ignore[arg-type]


def test_json_has_null_where_a_number_is_infinite() -> None:
    document = json.loads(Drift(measured(node("a", 0, math.inf, 1, 0.5))).to_json())
    (value,) = document["values"]
    assert (document["schema"], value["a"]["rms"], value["ratio_a"], value["ratio_b"]) == (1, None, None, 2.0)
    assert (value["site"]["line"], document["first_parting"], document["training"]) == (1, None, None)


def test_the_page_has_the_picture_and_escapes_what_a_program_is_called() -> None:
    named = measured(*LAYERS.nodes, results=("r",))
    html = Drift(Measurements("<b>net</b>", named.a, named.b, named.reference, named.nodes)).to_html()
    assert "<b>net</b>" not in html and "&lt;b&gt;net" in html
    assert html.count("<polyline") == 3 and "growth along 3 blocks" in html


def test_the_picture_has_a_point_for_each_error_above_zero() -> None:
    honest, a, b = drift_plot.curves(LAYERS)
    assert [len(curve.points) for curve in (honest, a, b)] == [7, 7, 7]
    assert b.points[-1] == (7, 2**-5)
    assert [(mark.depth, mark.name) for mark in drift_plot.marks(LAYERS)] == [
        (1, "layers.0"), (3, "layers.1"), (5, "layers.2"),
    ]  # fmt: skip


def test_of_very_many_points_the_largest_of_each_stretch_is_drawn() -> None:
    many = measured(*(node(f"n{i}", i, (i % 7 + 1) / 1000, 0.5, 0.25) for i in range(6000)))
    curve = drift_plot.curves(many)[1]
    assert len(curve.points) == 2000
    assert [y for _, y in curve.points[:3]] == [0.003, 0.006, 0.007]


def test_without_any_error_the_picture_is_a_line_of_words() -> None:
    assert "<svg" not in drift_plot.svg(measured(node("a", 0, 0, 0, 0)))


def test_a_png_is_one(tmp_path: Any) -> None:
    Drift(LAYERS).write_png(tmp_path / "drift.png")
    assert (tmp_path / "drift.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_png_without_matplotlib_says_what_to_install(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError) as caught:
        Drift(LAYERS).write_png(tmp_path / "drift.png")
    assert caught.value.what == "a PNG needs matplotlib, which is not installed"
    assert caught.value.help == "pip install 'truecast[plot]'; the HTML page has the same picture without it"
    assert not list(tmp_path.iterdir())


def test_a_picture_that_cant_be_written_says_why(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="can't write the picture"):
        Drift(LAYERS).write_png(tmp_path / "missing" / "drift.png")

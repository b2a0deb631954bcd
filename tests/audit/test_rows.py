"""From a text to the rows and figures of its audit: proven on programs written by hand, then on other stacks' dumps."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

import truecast as tc
from tests.audit.test_hlo_text import LOOP, MUL, SHORT_MUL
from truecast.diagnose.audit.result import Row, grouped
from truecast.errors import UsageError
from truecast.report.audit import AuditReport

DATA = Path(__file__).parent / "data"
DUMPS = sorted(path.name for path in DATA.iterdir())


def described(report: AuditReport) -> list[str]:
    return [f"{row.kind} {row.event} x{row.count} {row.nbytes} {row.op} {row.line} {row.asked}" for row in report.rows]


def test_the_three_converts_of_a_product() -> None:
    """Two operands of 32 elements up, from 2 to 4 bytes, and one result down: 3 x 32 x 6 bytes."""
    report = tc.audit(MUL)
    assert described(report) == [
        "convert bfloat16 -> float32 x2 384 xla.cast 7 unknown",
        "convert float32 -> bfloat16 x1 192 xla.cast 7 unknown",
    ]
    counts = report.counts()
    assert (counts["converts"], counts["converts.unknown"], counts["converts.bytes"]) == (3, 3, 576)
    assert (counts["converts.exact"], counts["products"], counts["accumulations.16bit"]) == (0, 0, 0)


def test_without_metadata_nobody_is_blamed() -> None:
    assert {row.asked for row in tc.audit(SHORT_MUL).rows} == {"unknown"}


def test_who_asked_by_metadata() -> None:
    """A cast of the traced program's; one around another operation; one that the compiler put in."""
    report = tc.audit(
        "HloModule m\n\nENTRY %main (p: bf16[2]) -> f32[2] {\n  %p = bf16[2]{0} parameter(0)\n"
        '  %a = f32[2]{0} convert(%p), metadata={op_name="jit(f)/convert_element_type"}\n'
        '  %b = f32[2]{0} convert(%p), metadata={op_name="jit(f)/layer/reduce_sum"}\n'
        "  ROOT %c = f32[2]{0} convert(%p)\n}\n"
    )
    assert [(row.op, row.asked, row.why) for row in report.rows] == [
        ("convert", "nobody", "it has no metadata: the compiler's own"),
        ("convert_element_type", "program", ""),
        ("reduce_sum", "nobody", "it belongs to reduce_sum, which is no cast"),
    ]


def test_an_instruction_without_metadata_stands_where_its_caller_does() -> None:
    report = tc.audit(
        "HloModule m\n\n%fused (q: f32[2]) -> bf16[2] {\n  %q = f32[2]{0} parameter(0)\n"
        "  ROOT %c = bf16[2]{0} convert(%q)\n}\n\n"
        "ENTRY %main (p: f32[2]) -> bf16[2] {\n  %p = f32[2]{0} parameter(0)\n  ROOT %f = bf16[2]{0} fusion(%p), "
        'kind=kLoop, calls=%fused, metadata={op_name="jit(f)/mul" source_file="/a/model.py" source_line=9}\n}\n'
    )
    [row] = report.rows
    assert (row.op, row.file, row.line, row.asked) == ("mul", "/a/model.py", 9, "nobody")


@pytest.mark.parametrize(
    ("dot", "rows"),
    [
        ("bf16[2,2]{1,0} dot(bf16[2,2] %a, bf16[2,2] %b)", ["contraction", "accumulation"]),
        ("f32[2,2]{1,0} dot(bf16[2,2] %a, bf16[2,2] %b)", ["contraction"]),
        ("f32[2,2]{1,0} dot(f32[2,2] %c, f32[2,2] %c)", []),
        ("f32[2,2]{1,0} dot(f32[2,2] %c, f32[2,2] %c), algorithm=dot_tf32_tf32_f32", ["contraction"]),
        ("f32[2,2]{1,0} dot(f32[2,2] %c, f32[2,2] %c), algorithm=dot_bf16_bf16_f32_x3", ["contraction"]),
        ("bf16[2,2]{1,0} dot(bf16[2,2] %a, bf16[2,2] %b), algorithm=dot_bf16_bf16_f32", ["contraction"]),
        ("f16[2,2]{1,0} dot(f16[2,2] %h, f16[2,2] %h), algorithm=dot_f16_f16_f16", ["contraction", "accumulation"]),
        ("s32[2,2]{1,0} dot(s8[2,2] %i, s8[2,2] %i)", []),
        (
            'bf16[2,2]{1,0} custom-call(bf16[2,2] %a, bf16[2,2] %b), custom_call_target="__onednn$matmul"',
            ["contraction"],
        ),
        ('bf16[2,2]{1,0} custom-call(bf16[2,2] %a), custom_call_target="Sharding"', []),
        ("bf16[1,1,2,2]{3,2,1,0} convolution(bf16[1,1,2,2] %a, bf16[1,1,1,1] %b)", ["contraction", "accumulation"]),
    ],
)
def test_products_in_reduced_precision(dot: str, rows: list[str]) -> None:
    report = tc.audit(f"HloModule m\n\nENTRY %main () -> f32[] {{\n  ROOT %d = {dot}\n}}\n")
    assert [row.kind for row in report.rows] == rows
    assert report.problems == ()
    assert report.counts()["products"] == ("Sharding" not in dot)


def test_a_loop_that_sums_in_16_bits() -> None:
    assert described(tc.audit(LOOP.format(carry="bf16", operation="add"))) == [
        "accumulation bfloat16 -> bfloat16 x1 8 while 0 "
    ]
    assert tc.audit(LOOP.format(carry="f32", operation="add")).rows == ()


def test_float64_anywhere_is_counted_where_it_is_made() -> None:
    report = tc.audit(
        "HloModule m\n\nENTRY %main (p: f64[4]) -> f64[4] {\n  %p = f64[4]{0} parameter(0)\n"
        "  %q = f32[4]{0} convert(%p)\n  %r = c128[4]{0} complex(%p, %p)\n  %n = f64[4]{0} negate(%p)\n"
        "  ROOT %t = (f64[4]{0}) tuple(%n)\n}\n"
    )
    assert described(report) == [
        "convert float64 -> float32 x1 48 convert 0 unknown",
        "float64 complex128 x1 64 complex 0 ",
        "float64 float64 x1 32 negate 0 ",
        "float64 float64 x1 32 parameter 0 ",
    ]


def test_a_convert_to_the_same_or_to_an_integer_is_exact() -> None:
    report = tc.audit(
        "HloModule m\n\nENTRY %main (p: f32[4]) -> s32[4] {\n  %p = f32[4]{0} parameter(0)\n"
        "  %q = f32[4]{0} convert(%p)\n  ROOT %i = s32[4]{0} convert(%q)\n}\n"
    )
    assert (report.counts()["converts"], report.counts()["converts.exact"]) == (0, 2)


def test_rows_of_one_key_are_summed() -> None:
    row = Row("convert", "convert", "bfloat16", "float32", "mul", "a.py", 3, nbytes=6, nodes=("x",), text_lines=(9,))
    other = Row("convert", "convert", "bfloat16", "float32", "mul", "a.py", 3, nbytes=8, nodes=("y",), text_lines=(4,))
    [found] = grouped([row, other])
    assert (found.count, found.nbytes, found.nodes, found.text_lines) == (2, 14, ("x", "y"), (4, 9))


@pytest.mark.parametrize("name", DUMPS)
def test_a_foreign_dump_is_read_whole(name: str) -> None:
    report = tc.audit(DATA / name)
    assert report.problems == ()
    assert report.audit.instructions >= 3
    assert name.startswith(("torch_xla-sum", "torch_xla-softmax")) or report.counts()["converts"] > 0
    if "layer.mlir" not in name and "kinds.mlir" not in name:
        assert any(row.line for row in report.rows)


@pytest.mark.parametrize("form", ["jax-kinds", "jax-layer"])
def test_the_forms_of_one_program_give_the_same_figures(form: str) -> None:
    """Pretty, with locations, generic: three ways to print one module."""
    reports = [tc.audit(DATA / f"{form}{suffix}.mlir") for suffix in (".locations", ".generic")]
    figures = [{k: v for k, v in r.counts().items() if k not in ("instructions", "float64")} for r in reports]
    assert figures[0] == figures[1]
    plain = tc.audit(DATA / f"{form}.mlir").counts()
    assert {k: v for k, v in plain.items() if k in ("products", "accumulations.16bit", "converts.bytes")} == {
        k: v for k, v in figures[0].items() if k in ("products", "accumulations.16bit", "converts.bytes")
    }


def test_torch_xla_sums_in_16_bits() -> None:
    """What stock torch_xla 2.9 emits: three converts around a product; a sum and a softmax in bfloat16."""
    assert tc.audit(DATA / "torch_xla-mul.hlo").counts()["converts"] == 3
    for name, sums in (("sum", 1), ("softmax", 1)):
        report = tc.audit(DATA / f"torch_xla-{name}.hlo")
        assert [(row.kind, row.accumulate) for row in report.rows] == [("accumulation", "bfloat16")] * sums


def test_every_kind_of_sum_in_the_jax_dump() -> None:
    report = tc.audit(DATA / "jax-kinds.before_optimizations.hlo")
    sums = report.audit.of("accumulation")
    assert [row.operation for row in sums] == ["while", "scatter", "reduce_window", "convolution", "reduce_window"]
    first = sums[0].line
    assert [row.line - first for row in sums] == [0, 1, 2, 3, 4]  # a line each in `kinds`


def test_the_text_of_an_audit(golden: Callable[[str, str], None]) -> None:
    golden("torch_xla-llama-step.audit", tc.audit(DATA / "torch_xla-llama-step.hlo").render() + "\n")


def test_the_text_of_a_difference(golden: Callable[[str, str], None]) -> None:
    before = tc.audit(DATA / "jax-kinds.before_optimizations.hlo")
    after = tc.audit(DATA / "jax-kinds.cpu_after_optimizations.hlo")
    golden("jax-kinds.audit-diff", before.diff(after).render() + "\n")
    assert before.diff(before).changes == ()
    assert before.diff(before).render().endswith("  no figure differs\n  the same on every line")


def test_a_difference_finds_a_file_in_another_folder() -> None:
    moved = tc.audit(MUL.replace("/home/u/model.py", "/mnt/other/u/model.py"))
    assert tc.audit(MUL).diff(moved).changes == ()
    [change] = tc.audit(MUL).diff(tc.audit(MUL.replace("  %convert.3 = f32", "  %convert.3 = f64"))).changes[:1]
    assert (change.op, change.line, change.before, change.after) == ("xla.cast", 7, 3, 3)


def test_casts_that_the_compiler_removed_from_foreign_text() -> None:
    """Before and after optimisation: a cast down and up again, of which XLA left nothing."""
    head = "HloModule m\n\nENTRY %main (p: f32[4]) -> f32[4] {\n  %p = f32[4]{0} parameter(0)\n"
    cast = ', metadata={op_name="jit(f)/convert_element_type" source_file="/a/f.py" source_line=2}'
    casts = f"  %q = bf16[4]{{0}} convert(%p){cast}\n  %r = f32[4]{{0}} convert(%q){cast}\n"
    before = f"{head}{casts}  ROOT %n = f32[4]{{0}} negate(%r)\n}}\n"
    after = f"{head}  ROOT %n = f32[4]{{0}} negate(%p)\n}}\n"
    difference = tc.audit(before).diff(tc.audit(after))
    [change] = difference.changes
    assert (change.before, change.after, change.casts_lost) == (2, 0, 2)
    assert "converts 2 -> 0, 48 B -> 0 B, 2 of the program's casts gone" in difference.render()
    assert tc.audit(after).diff(tc.audit(before)).changes[0].casts_lost == 0


def test_json_has_every_row_and_every_problem() -> None:
    report = tc.audit(MUL + "junk\n")
    document = json.loads(report.to_json())
    assert (document["schema"], len(document["audit"]["rows"])) == (1, 2)
    assert document["audit"]["rows"][0] == {
        **{"kind": "convert", "operation": "convert", "source": "bfloat16", "result": "float32", "accumulate": ""},
        **{"op": "xla.cast", "file": "/home/u/model.py", "line": 7, "column": 0, "function": "", "asked": "unknown"},
        **{"rule": "", "why": "torch_xla's own casts bear the same name", "count": 2, "bytes": 384, "nodes": []},
        "text_lines": [6, 7],
    }
    what = "an instruction outside of a computation, or no HLO"
    assert document["audit"]["problems"] == [{"line": 11, "column": 1, "what": what}]
    difference = json.loads(report.diff(tc.audit(SHORT_MUL)).to_json())
    assert {change["before"] for change in difference["changes"]} == {0, 3}


def test_html_escapes_and_says_the_same() -> None:
    class Text(HTMLParser):
        words = ""

        def handle_data(self, data: str) -> None:
            self.words += data

    report = tc.audit(MUL.replace("xla__cast", "<b>x</b>"))
    for page in (report.to_html(), report.diff(tc.audit(SHORT_MUL)).to_html()):
        reader = Text()
        reader.feed(page)
        assert "<b>x</b>" in reader.words and "bfloat16 -> float32" in reader.words
        assert "<b>" not in page


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "there is no program ({path}); values: it is empty"),
        (b"ML\xefR\x00", "this is MLIR bytecode, not text ({path}); values: it begins with b'ML\\xefR\\x00'"),
        (b"\x0a\x07\x00m", "this is a binary file, not text ({path}); values: it begins with b'\\n\\x07\\x00m'"),
        (b"\n\nhello\n", "this is neither HLO nor StableHLO ({path}:3:1); values: the line is 'hello'"),
    ],
)
def test_a_file_that_holds_no_program(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError) as raised:
        tc.audit(path)
    said = f"{raised.value.what} ({raised.value.where}); values: {raised.value.values}"
    assert said == message.format(path=path)


def test_what_is_no_program_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a int can't be audited"):
        tc.audit(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="can't read the program"):
        tc.audit(tmp_path / "absent.hlo")

"""StableHLO as MLIR prints it, pretty and generic, with and without locations, whole and broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truecast.diagnose.hlo import Metadata, Module, read_text
from truecast.diagnose.hlo.loops import narrow_sums

CONVERT = "%9 = stablehlo.convert %arg0 : (tensor<4x8xbf16>) -> tensor<4x8xf32>"


def read(text: str) -> Module:
    [module] = read_text(text)
    return module


def function(*lines: str) -> Module:
    """The module whose main has these lines."""
    inside = "".join(f"    {line}\n" for line in lines)
    return read(f"module @m {{\n  func.func public @main(%arg0: tensor<4x8xbf16>) {{\n{inside}  }}\n}}\n")


def kept(module: Module) -> list[tuple[str, list[str], list[str], str]]:
    return [(i.operation, [str(o) for o in i.operands], [str(r) for r in i.results], i.detail) for i in module.kept]


def problems(module: Module) -> list[str]:
    return [str(problem) for problem in module.problems]


@pytest.mark.parametrize(
    ("line", "operation", "operands", "result", "detail"),
    [
        (
            "%0 = stablehlo.convert %arg0 : (tensor<4x8xbf16>) -> tensor<4x8xf32>",
            *("convert", ["bfloat16[4,8]"], "float32[4,8]", ""),
        ),
        (
            '%0 = "stablehlo.convert"(%arg0) : (tensor<4x8xbf16>) -> tensor<4x8xf8E4M3FN>',
            *("convert", ["bfloat16[4,8]"], "float8_e4m3fn[4,8]", ""),
        ),
        (
            "%0 = stablehlo.reduce_precision %arg0, format = e5m10 : tensor<4x8xbf16>",
            *("reduce_precision", ["bfloat16[4,8]"], "bfloat16[4,8]", "float16"),
        ),
        (
            "%0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : "
            "(tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x4xf32>",
            *("dot", ["bfloat16[4,8]"] * 2, "float32[4,4]", "operand_precision={highest,highest}"),
        ),
        (
            "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1], algorithm = <lhs_precision_type = bf16, "
            "rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, "
            "num_primitive_operations = 3, allow_imprecise_accumulation = false> : "
            "(tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>",
            *("dot", ["float32[4,8]"] * 2, "float32[4,4]", "algorithm=dot_bf16_bf16_f32_x3"),
        ),
        (
            '%0 = stablehlo.custom_call @__onednn$matmul(%arg0, %arg0) {api_version = 4 : i32, config = {a = "x"}}'
            " : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x4xbf16>",
            *("custom_call", ["bfloat16[4,8]"] * 2, "bfloat16[4,4]", 'custom_call_target="__onednn$matmul"'),
        ),
        (
            "%0 = stablehlo.convert %arg0 : (tensor<?x8xbf16, #stablehlo.bounds<4, ?>>) -> tensor<?x8xcomplex<f32>>",
            *("convert", ["bfloat16[1,8]"], "complex64[1,8]", ""),
        ),
    ],
)
def test_one_operation(line: str, operation: str, operands: list[str], result: str, detail: str) -> None:
    module = function(line)
    assert module.problems == []
    assert kept(module) == [(operation, operands, [result], detail)]


PRETTY_SUM = (
    "%0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.{op} across dimensions = [1] : "
    "(tensor<4x8x{t}>, tensor<{t}>) -> tensor<4x{t}>"
)
REDUCER_SUM = """\
    %0 = stablehlo.reduce(%arg0 init: %cst) across dimensions = [1] : (tensor<4x8x{t}>, tensor<{t}>) -> tensor<4x{t}>
     reducer(%arg1: tensor<{t}>, %arg2: tensor<{t}>)  {{
      %1 = stablehlo.{op} %arg1, %arg2 : tensor<{t}>
      stablehlo.return %1 : tensor<{t}>
    }} loc(#loc)
"""
GENERIC_SUM = """\
    %0 = "stablehlo.reduce"(%arg0, %cst) <{{dimensions = array<i64: 1>}}> ({{
    ^bb0(%arg1: tensor<{t}>, %arg2: tensor<{t}>):
      %1 = "stablehlo.{op}"(%arg1, %arg2) : (tensor<{t}>, tensor<{t}>) -> tensor<{t}>
      "stablehlo.return"(%1) : (tensor<{t}>) -> ()
    }}) : (tensor<4x8x{t}>, tensor<{t}>) -> tensor<4x{t}>
"""


@pytest.mark.parametrize("form", [PRETTY_SUM, REDUCER_SUM, GENERIC_SUM], ids=["applies", "reducer", "generic"])
@pytest.mark.parametrize(
    ("op", "t", "narrow"), [("add", "bf16", "bfloat16"), ("add", "f32", None), ("maximum", "bf16", None)]
)
def test_what_a_reduction_rounds_to(form: str, op: str, t: str, narrow: str | None) -> None:
    module = function(*form.format(op=op, t=t).splitlines())
    assert module.problems == []
    [found] = module.kept
    assert (found.operation, len(found.called)) == ("reduce", 1)
    combiner = module.computations[found.called[0]]
    dtype = combiner.narrowest if combiner.combines else None
    assert (dtype.name if dtype is not None and dtype.is_narrow else None) == narrow


def test_the_location_of_an_operation_stands_behind_its_region() -> None:
    lines = REDUCER_SUM.format(op="add", t="bf16").replace("loc(#loc)", 'loc("sum"("/u/model.py":4:1))').splitlines()
    module = function(*lines)
    assert module.metadata(module.kept[0].reference) == Metadata("sum", "", "/u/model.py", 4, 1, "")
    assert module.callers == {module.kept[0].called[0]: [("main", '"sum"("/u/model.py":4:1)')]}


def test_locations_wherever_they_stand() -> None:
    """jax names the operation first, then the function, then the position; callers stand behind their callees."""
    module = read(
        "module @m {\n"
        '  func.func public @main(%arg0: tensor<2xbf16> loc("x")) -> tensor<2xf32> {\n'
        "    %0 = stablehlo.convert %arg0 : (tensor<2xbf16>) -> tensor<2xf32> loc(#loc5)\n"
        "    return %0 : tensor<2xf32> loc(#loc)\n  } loc(#loc)\n} loc(#loc)\n"
        "#loc = loc(unknown)\n"
        '#loc1 = loc("/home/u/model.py":12:4 to :9)\n'
        '#loc2 = loc("/home/u/train.py":3:0)\n'
        '#loc3 = loc("step"(#loc1))\n'
        "#loc4 = loc(callsite(#loc3 at #loc2))\n"
        '#loc5 = loc("jit(step)/convert_element_type"(#loc4))\n'
    )
    assert module.problems == []
    found = module.metadata(module.kept[0].reference)
    assert found == Metadata("jit(step)/convert_element_type", "", "/home/u/model.py", 12, 4, "step")


@pytest.mark.parametrize(
    ("location", "aliases", "expected"),
    [
        ('"xla__cast"(#loc2)', '#loc1 = /u/model.py:6:2\n#loc2 = "step"(#loc1)', ("xla__cast", "/u/model.py", 6)),
        ('"op"(#loc2)', '#loc1 = /u/model.py:6:2\n#loc2 = "step"(#loc1)\n at #loc3', ("op", "/u/model.py", 6)),
        ("#loc1", "#loc1 = /u/model.py:6:2", ("", "/u/model.py", 6)),
        ("/u/model.py:6:2 to :9", "", ("", "/u/model.py", 6)),
        ('"op"("step"(/u/model.py:6:2))', "", ("op", "/u/model.py", 6)),
        ("[unknown]", "", ("", "", 0)),
    ],
)
def test_locations_as_mlir_prints_them_for_people(location: str, aliases: str, expected: tuple[str, str, int]) -> None:
    """torch_xla's get_stablehlo prints them so."""
    head = f"module @m {{\n  func.func @main(%arg0: tensor<4x8xbf16> {location}) {{\n"
    module = read(f"{aliases}\n{head}    {CONVERT} {location}\n  }} {location}\n}}\n")
    assert module.problems == []
    [found] = module.kept
    assert str(found.results[0]) == "float32[4,8]"
    metadata = module.metadata(found.reference)
    assert (metadata.op_name, metadata.file, metadata.line) == expected


WHILE = """\
    %1:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<4x8x{t}>
    cond {{
      %2 = stablehlo.compare LT, %iterArg, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    }} do {{
      %2 = stablehlo.{op} %iterArg_0, %iterArg_0 : tensor<4x8x{t}>
      %3 = func.call @same(%2) : (tensor<4x8x{t}>) -> tensor<4x8x{t}>
      stablehlo.return %iterArg, %3 : tensor<i32>, tensor<4x8x{t}>
    }}
"""
SAME = """\
  func.func private @same(%arg0: tensor<4x8x{t}>) -> tensor<4x8x{t}> {{
    %0 = stablehlo.reshape %arg0 : (tensor<4x8x{t}>) -> tensor<4x8x{t}>
    return %0 : tensor<4x8x{t}>
  }}
"""


@pytest.mark.parametrize(
    ("op", "t", "found"), [("add", "bf16", [(1, "bfloat16")]), ("multiply", "bf16", []), ("add", "f32", [])]
)
def test_a_sum_that_a_loop_carries(op: str, t: str, found: list[tuple[int, str]]) -> None:
    main = f"module @m {{\n  func.func public @main(%arg0: tensor<4x8x{t}>) {{\n"
    module = read(main + WHILE.format(op=op, t=t) + "  }\n" + SAME.format(t=t) + "}\n")
    assert module.problems == []
    assert [(position, dtype.name) for _, position, dtype in narrow_sums(module)] == found


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("%0 = ", "3:5: an operation was expected"),
        ("$$$", "3:5: an operation was expected"),
        ("%0 = stablehlo.convert %arg0", "3:10: convert has no types"),
        ("%0 = stablehlo.convert %arg0 : (tensor<4x8xbf16>) -> tensor<4x8xf99>", "3:69: unknown element type 'f99'"),
    ],
)
def test_a_broken_line_is_named_and_the_rest_is_read(line: str, problem: str) -> None:
    module = function(line, CONVERT)
    assert problems(module) == [problem]
    assert [entry[0] for entry in kept(module)] == ["convert"]


def test_a_text_that_is_cut_off_is_named() -> None:
    whole = "module @m {\n  func.func public @main(%arg0: tensor<4x8xbf16>) {\n    " + CONVERT + "\n"
    assert problems(read(whole)) == [f"3:{len(CONVERT) + 5}: the text ends inside main"]
    assert problems(read(whole + "  }\n}\n}\n")) == ["6:1: a closing brace that nothing opened"]


def test_a_second_module_is_named() -> None:
    text = "module @m {\n  func.func public @main(%arg0: tensor<4x8xbf16>) {\n    " + CONVERT + "\n  }\n}\n"
    what = "a second module, whose locations can't be told from the first one's"
    assert problems(read(text + text)) == [f"6:1: {what}"]


def test_a_huge_constant_and_resources_are_passed_over() -> None:
    module = function('%0 = stablehlo.constant dense<"0x' + "AB" * 500_000 + '"> : tensor<500000xbf16>', CONVERT)
    assert (module.problems, module.instructions) == ([], 2)
    resources = '{-#\n  dialect_resources: {\n    builtin: {\n      a: "0x08"\n    }\n  }\n#-}\n'
    text = "module @m {\n  func.func public @main(%arg0: tensor<4x8xbf16>) {\n    " + CONVERT + "\n  }\n}\n\n"
    assert read(text + resources).problems == []


ELEMENTS = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "i32": "int32", "ui8": "uint8", "i1": "bool"}


@given(
    extents=st.lists(st.integers(0, 4096), max_size=4),
    before=st.sampled_from(sorted(ELEMENTS)),
    after=st.sampled_from(sorted(ELEMENTS)),
    generic=st.booleans(),
    position=st.one_of(
        st.none(), st.tuples(st.from_regex(r"[a-z /_.()\[\]]{1,16}", fullmatch=True), st.integers(1, 99))
    ),
)
def test_generated_lines_are_read_back(
    extents: list[int], before: str, after: str, generic: bool, position: tuple[str, int] | None
) -> None:
    shape = "".join(f"{extent}x" for extent in extents)
    operation = '"stablehlo.convert"(%arg0)' if generic else "stablehlo.convert %arg0"
    location = "" if position is None else f' loc("op"("{position[0]}":{position[1]}:3))'
    module = function(f"%0 = {operation} : (tensor<{shape}{before}>) -> tensor<{shape}{after}>{location}")
    assert module.problems == []
    text = ",".join(map(str, extents))
    assert kept(module) == [("convert", [f"{ELEMENTS[before]}[{text}]"], [f"{ELEMENTS[after]}[{text}]"], "")]
    found = module.metadata(module.kept[0].reference)
    assert (found.file, found.line) == (position or ("", 0))


@given(text=st.text(max_size=200))
def test_any_text_inside_a_function_is_survived(text: str) -> None:
    module = function(*text.splitlines(), CONVERT)
    assert module.unread_lines >= 0

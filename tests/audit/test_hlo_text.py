"""HLO text in the forms that XLA prints, and text that is broken: what is read, and what is said of the rest."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truecast.diagnose.hlo import Metadata, read_text
from truecast.diagnose.hlo.loops import narrow_sums
from truecast.diagnose.hlo.module import MOST_PROBLEMS, Instruction, Module

HEAD = "HloModule m, entry_computation_layout={()->f32[]}\n\n"

# Three converts and a product by hand, in the long form with metadata.
_CAST = ', metadata={op_type="xla__cast" op_name="xla__cast" source_file="/home/u/model.py" source_line=7}'
MUL = f"""\
HloModule mul, entry_computation_layout={{(bf16[4,8]{{1,0}}, bf16[4,8]{{1,0}})->bf16[4,8]{{1,0}}}}

ENTRY %main.7 (a.1: bf16[4,8], b.2: bf16[4,8]) -> bf16[4,8] {{
  %a.1 = bf16[4,8]{{1,0}} parameter(0)
  %b.2 = bf16[4,8]{{1,0}} parameter(1)
  %convert.3 = f32[4,8]{{1,0}} convert(bf16[4,8]{{1,0}} %a.1){_CAST}
  %convert.4 = f32[4,8]{{1,0}} convert(bf16[4,8]{{1,0}} %b.2){_CAST}
  %multiply.5 = f32[4,8]{{1,0}} multiply(f32[4,8]{{1,0}} %convert.3, f32[4,8]{{1,0}} %convert.4)
  ROOT %convert.6 = bf16[4,8]{{1,0}} convert(f32[4,8]{{1,0}} %multiply.5){_CAST}
}}
"""

# The same as XLA's short form prints it: no "%", no operand types, no metadata.
SHORT_MUL = """\
HloModule mul

ENTRY main.7 {
  a.1 = bf16[4,8]{1,0} parameter(0)
  b.2 = bf16[4,8]{1,0} parameter(1)
  convert.3 = f32[4,8]{1,0} convert(a.1)
  convert.4 = f32[4,8]{1,0} convert(b.2)
  multiply.5 = f32[4,8]{1,0} multiply(convert.3, convert.4)
  ROOT convert.6 = bf16[4,8]{1,0} convert(multiply.5)
}
"""


def read(text: str) -> Module:
    """The one module in a text."""
    [module] = read_text(text)
    return module


def types(instruction: Instruction) -> tuple[list[str], list[str]]:
    return [str(o) for o in instruction.operands], [str(r) for r in instruction.results]


def body(*lines: str) -> Module:
    """The module whose entry computation has these lines."""
    return read(HEAD + "ENTRY %main (p: f32[]) -> f32[] {\n" + "".join(f"  {line}\n" for line in lines) + "}\n")


def problems(module: Module) -> list[str]:
    return [str(problem) for problem in module.problems]


@pytest.mark.parametrize("text", [MUL, SHORT_MUL], ids=["long", "short"])
def test_the_converts_around_a_product(text: str) -> None:
    module = read(text)
    assert (module.name, module.language, module.instructions, module.problems) == ("mul", "HLO", 6, [])
    up, down = (["bfloat16[4,8]"], ["float32[4,8]"]), (["float32[4,8]"], ["bfloat16[4,8]"])
    assert [types(i) for i in module.kept] == [up, up, down]


def test_metadata_in_the_instruction() -> None:
    module = read(MUL)
    assert module.metadata(module.kept[0].reference) == Metadata("xla__cast", "xla__cast", "/home/u/model.py", 7)


def test_metadata_in_tables() -> None:
    """stack_frame_id leads to a frame; the program's own comes before a framework's that it calls."""
    module = read(
        "HloModule m\n\nFileNames\n"
        '1 "/home/u/model.py"\n2 "/usr/lib/python3/site-packages/jax/_src/numpy.py"\n\n'
        'FunctionNames\n1 "step"\n2 "convert"\n\n'
        "FileLocations\n"
        "1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=4 end_column=9}\n"
        "2 {file_name_id=2 function_name_id=2 line=99 end_line=99 column=1 end_column=2}\n\n"
        "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n2 {file_location_id=2 parent_frame_id=2}\n\n\n"
        "ENTRY %main (p: f32[2]) -> bf16[2] {\n"
        "  %p = f32[2]{0} parameter(0)\n"
        '  ROOT %c = bf16[2]{0} convert(%p), metadata={op_name="jit(step)/convert_element_type" stack_frame_id=2}\n}\n'
    )
    assert module.problems == []
    found = module.metadata(module.kept[0].reference)
    assert found == Metadata("jit(step)/convert_element_type", "", "/home/u/model.py", 12, 4, "step")


def test_what_optimized_programs_hold() -> None:
    """Fusions, layouts with tiles, tuples of tuples, comments, sharding, oneDNN, a literal over several lines."""
    module = read(
        HEAD + "%fused (p.1: bf16[8,128]) -> f32[8,128] {\n"
        "  %p.1 = bf16[8,128]{1,0:T(8,128)(2,1)S(1)} parameter(0)\n"
        "  ROOT %c = f32[8,128]{1,0:T(8,128)} convert(%p.1)\n"
        '}, execution_thread="main"\n\n'
        "ENTRY %main (p: bf16[8,128]) -> (f32[8,128], (f32[], token[])) {\n"
        '  %p = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(0), sharding={devices=[2,1]<=[2]}, metadata={op_name="x"}\n'
        "  %k = f32[2,2]{1,0} constant({\n    { 1, 2 },\n    { 3, 4 }\n  })\n"
        '  %f = f32[8,128]{1,0:T(8,128)} fusion(%p), kind=kLoop, calls=%fused, metadata={op_name="jit(f)/mul{x}"}\n'
        '  %d = bf16[8,8]{1,0} custom-call(%p, /*index=1*/%p), custom_call_target="__onednn$matmul", '
        'backend_config={"a":{"b":[]}}\n'
        "  %r = f32[8]{0} reduce-precision(%s), exponent_bits=8, mantissa_bits=7\n"
        "  %w = ((f32[8,128]{1,0:T(8,128)}, s32[]), token[]) tuple(%f, %d)\n"
        "}\n"
    )
    assert problems(module) == ["16:35: %s is not defined above in this computation"]
    assert Counter(i.operation for i in module.kept) == {"convert": 1, "custom_call": 1, "reduce_precision": 1}
    call = module.kept[1]
    assert (types(call)[0], call.detail) == (["bfloat16[8,128]"] * 2, 'custom_call_target="__onednn$matmul"')
    assert module.kept[2].detail == "bfloat16"
    assert module.callers == {"fused": [("main", 'op_name="jit(f)/mul{x}"')]}


@pytest.mark.parametrize(
    ("combiner", "narrow"),
    [
        ("ROOT %z = bf16[] add(%x, %y)", "bfloat16"),
        ("ROOT %z = bf16[] maximum(%x, %y)", None),
        # What XLA:CPU makes of a sum in bfloat16: float32 additions, each rounded.
        ("%s = f32[] add(%x, %y)\n  %t = bf16[] convert(%s)\n  ROOT %z = f32[] convert(%t)", "bfloat16"),
        (
            "%s = f32[] add(%x, %y)\n  ROOT %z = f32[] reduce-precision(%s), exponent_bits=5, mantissa_bits=10",
            "float16",
        ),
        ("ROOT %z = f32[] add(%x, %y)", None),
    ],
)
def test_what_a_reduction_rounds_to(combiner: str, narrow: str | None) -> None:
    dtype = "bf16" if "ROOT %z = bf16" in combiner else "f32"
    module = read(
        HEAD + f"%add (x: {dtype}[], y: {dtype}[]) -> {dtype}[] {{\n"
        f"  %x = {dtype}[] parameter(0)\n  %y = {dtype}[] parameter(1)\n  {combiner}\n}}\n\n"
        f"ENTRY %main (p: {dtype}[8]) -> {dtype}[] {{\n  %p = {dtype}[8]{{0}} parameter(0)\n"
        f"  %i = {dtype}[] constant(0)\n"
        f"  ROOT %r = {dtype}[] reduce(%p, %i), dimensions={{0}}, to_apply=%add\n}}\n"
    )
    assert module.problems == []
    add = module.computations["add"]
    found = add.narrowest.name if add.combines and add.narrowest is not None and add.narrowest.is_narrow else None
    assert found == narrow


LOOP = """\
HloModule loop

%fused (q.0: {carry}[4], q.1: {carry}[4]) -> {carry}[4] {{
  %q.0 = {carry}[4]{{0}} parameter(0)
  %q.1 = {carry}[4]{{0}} parameter(1)
  ROOT %s = {carry}[4]{{0}} {operation}(%q.0, %q.1)
}}

%body (t: (s32[], {carry}[4])) -> (s32[], {carry}[4]) {{
  %t = (s32[], {carry}[4]{{0}}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %x = {carry}[4]{{0}} get-tuple-element(%t), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %y = {carry}[4]{{0}} fusion(%x, %x), kind=kLoop, calls=%fused
  ROOT %u = (s32[], {carry}[4]{{0}}) tuple(%next, %y)
}}

ENTRY %main (a: {carry}[4]) -> (s32[], {carry}[4]) {{
  %a = {carry}[4]{{0}} parameter(0)
  %zero = s32[] constant(0)
  %start = (s32[], {carry}[4]{{0}}) tuple(%zero, %a)
  ROOT %w = (s32[], {carry}[4]{{0}}) while(%start), condition=%cond, body=%body
}}
"""


@pytest.mark.parametrize(
    ("carry", "operation", "found"),
    [
        ("bf16", "add", [(1, "bfloat16")]),
        ("f16", "subtract", [(1, "float16")]),
        ("bf16", "multiply", []),
        ("f32", "add", []),
    ],
)
def test_a_sum_that_a_loop_carries(carry: str, operation: str, found: list[tuple[int, str]]) -> None:
    module = read(LOOP.format(carry=carry, operation=operation))
    assert [(position, dtype.name) for _, position, dtype in narrow_sums(module)] == found


GOOD = "%a = f32[2]{0} parameter(0)"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("%b = f32[2]{0} convert(%a", "5:25: the parenthesis around the operands is not closed"),
        ("%b = zz9[2]{0} convert(%a)", "5:8: unknown element type 'zz9'"),
        ("%b = f32[2]{0} convert(%nobody)", "5:26: %nobody is not defined above in this computation"),
        ("%b : f32[2]{0} convert(%a)", '5:5: " = " was expected'),
        ("%b = f32[2", "5:8: a type was expected"),
        ("%b = f32[2]{0}", "5:17: an operation was expected"),
        ("%b = f32[2]{0} convert", '5:25: "(" was expected'),
        ("= f32[2]{0} convert(%a)", "5:3: a name was expected"),
        ("%b = f32[2]{0} reduce-precision(%a)", "5:34: a reduce-precision without exponent_bits and mantissa_bits"),
    ],
)
def test_a_broken_line_is_named_and_the_rest_is_read(line: str, problem: str) -> None:
    module = body(GOOD, line, "%c = bf16[2]{0} convert(%a)", "ROOT %d = f32[2]{0} convert(%c)")
    assert problems(module) == [problem]
    assert [types(i)[1][0] for i in module.kept if i.text_line > 5] == ["bfloat16[2]", "float32[2]"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (MUL.rsplit("}", 1)[0], "9:167: the text ends inside main.7"),
        (MUL + "}\n", "11:1: a closing brace that nothing opened"),
        (MUL + "%x = f32[] add(%y, %z)\n", "11:1: an instruction outside of a computation, or no HLO"),
        (MUL.replace("\n\nENTRY", "\n\nFileNames\nno row\n\nENTRY"), "4:1: no row of the table FileNames"),
    ],
)
def test_broken_structure_is_named_and_the_rest_is_read(text: str, problem: str) -> None:
    module = read(text)
    assert problems(module)[0] == problem
    assert len(module.kept) >= 3


def test_several_modules_in_one_text() -> None:
    """Names and tables are each module's own: the second computation %add sums in another dtype than the first."""
    texts = [
        f'HloModule m\n\nFileNames\n1 "/u/{dtype}.py"\n\nFileLocations\n1 {{file_name_id=1 line=3}}\n\n'
        "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n\n"
        f"%add (x: {dtype}[]) -> {dtype}[] {{\n  %x = {dtype}[] parameter(0)\n  ROOT %z = {dtype}[] add(%x, %x)\n}}\n\n"
        f"ENTRY %e (p: {dtype}[8]) -> {dtype}[] {{\n  %p = {dtype}[8]{{0}} parameter(0)\n"
        f'  ROOT %r = {dtype}[] reduce(%p, %p), to_apply=%add, metadata={{op_name="sum" stack_frame_id=1}}\n}}\n'
        for dtype in ("bf16", "f32")
    ]
    modules = read_text("".join(texts))
    assert [module.problems for module in modules] == [[], []]
    narrowest = [module.computations["add"].narrowest for module in modules]
    assert [str(dtype) for dtype in narrowest] == ["bfloat16", "float32"]
    assert [m.metadata(m.kept[0].reference).file for m in modules] == ["/u/bf16.py", "/u/f32.py"]


def test_a_module_that_begins_inside_another() -> None:
    first, second = read_text(MUL.rsplit("}", 1)[0] + MUL)
    assert problems(first) == ["10:1: a module begins inside main.7"]
    assert (len(first.kept), len(second.kept), second.problems) == (3, 3, [])


def test_the_graphs_that_torch_xla_saves() -> None:
    """XLA_SAVE_TENSORS_FILE with XLA_SAVE_TENSORS_FMT=hlo: each graph between marks, with words around it."""
    graph = f"[ScheduleSyncTensorsGraph]\nTensorsGraphInfo:\n  step (model.py:3)\n\n## BEGIN_GRAPH\n{MUL}\n\n"
    graph += "Graph Hash: 4632df77\n\n## END_GRAPH\n\n"
    modules = read_text(graph * 2)
    assert [(len(module.kept), module.problems) for module in modules] == [(3, []), (3, [])]
    assert modules[0].kept[0].text_line == 11


def test_many_broken_lines_are_counted() -> None:
    module = body(*["nothing like HLO here"] * (MOST_PROBLEMS + 20), GOOD)
    assert (len(module.problems), module.unread_lines, module.instructions) == (MOST_PROBLEMS, MOST_PROBLEMS + 20, 1)


def test_a_huge_line_is_read_in_linear_time() -> None:
    literal = "{" + ", ".join(["1"] * 500_000) + "}"
    module = body(f"%k = f32[500000]{{0}} constant({literal})", "%c = bf16[500000]{0} convert(%k)", "(" * 200_000)
    assert problems(module) == ["6:3: a name was expected"]
    assert types(module.kept[0]) == (["float32[500000]"], ["bfloat16[500000]"])


ELEMENTS = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "s32": "int32", "pred": "bool"}
NAMES = st.from_regex(r"[a-z_][a-z0-9_\-]{0,8}(\.[0-9]{1,3})?", fullmatch=True)
SHAPES = st.lists(st.integers(0, 4096), max_size=4).map(tuple)
QUOTED = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20).map(
    lambda text: text.replace("\\", "/").replace('"', "'")
)


@given(
    names=st.lists(NAMES, min_size=3, max_size=3, unique=True),
    extents=SHAPES,
    before=st.sampled_from(sorted(ELEMENTS)),
    after=st.sampled_from(sorted(ELEMENTS)),
    op_name=QUOTED,
    file=QUOTED,
    line=st.integers(1, 99999),
    percent=st.sampled_from(["%", ""]),
    typed=st.booleans(),
)
def test_generated_lines_are_read_back(
    names: list[str],
    extents: tuple[int, ...],
    before: str,
    after: str,
    op_name: str,
    file: str,
    line: int,
    percent: str,
    typed: bool,
) -> None:
    parameter, computation, convert = names
    shape = ",".join(map(str, extents))
    layout = "{" + ",".join(map(str, reversed(range(len(extents))))) + "}" if extents else ""
    operand = f"{before}[{shape}]{layout} " * typed + percent + parameter
    module = read(
        f"HloModule m\n\nENTRY {percent}{computation} (x: {before}[{shape}]) -> {after}[{shape}] {{\n"
        f"  {percent}{parameter} = {before}[{shape}]{layout} parameter(0)\n"
        f"  ROOT {percent}{convert} = {after}[{shape}]{layout} convert({operand}), sharding={{replicated}}, "
        f'metadata={{op_name="{op_name}" source_file="{file}" source_line={line}}}\n}}\n'
    )
    assert module.problems == []
    [found] = module.kept
    text = ",".join(map(str, extents))
    assert types(found) == ([f"{ELEMENTS[before]}[{text}]"], [f"{ELEMENTS[after]}[{text}]"])
    assert module.metadata(found.reference) == Metadata(op_name, "", file, line)


@given(text=st.text(max_size=200))
def test_any_text_inside_a_computation_is_survived(text: str) -> None:
    module = body(GOOD, *text.splitlines(), "%c = bf16[2]{0} convert(%a)")
    assert module.instructions >= 1

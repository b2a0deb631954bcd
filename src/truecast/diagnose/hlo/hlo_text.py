"""HLO text, before and after optimisation, with and without metadata, in XLA's long and short forms.

The forms differ in whether names begin with "%", whether operands bear their types, and where source lines stand: in
each instruction (source_file=, source_line=), or in tables at the top that stack_frame_id= points to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from truecast.diagnose.hlo.metadata import SECTIONS, Tables
from truecast.diagnose.hlo.module import (
    CONTRACTIONS,
    CUSTOM_CALLS,
    KEPT,
    REDUCTIONS,
    ROUNDINGS,
    Computation,
    Flow,
    FlowKind,
    Instruction,
    Loop,
    Module,
)
from truecast.diagnose.hlo.types import TensorType, UnknownElement, of_hlo, with_format

_ARRAY = r"[a-z]\w*\[[^\]\n]*\](?:\{[^}\n]*\})?"
# Parentheses that hold parentheses, three deep: tuples of tuples, with layouts such as {1,0:T(8,128)(2,1)} in them.
_NESTED = r"\((?:[^()\n]++|\((?:[^()\n]++|\((?:[^()\n]++|\([^()\n]*+\))*+\))*+\))*+\)"
_INSTRUCTION = re.compile(rf"\s*(ROOT )?%?([^\s=(){{}},]+) = ({_ARRAY}|{_NESTED}) ([\w\-]+)(?=\()")
_PARENTHESIZED = re.compile(_NESTED)
_OPERAND = re.compile(rf"(?:({_ARRAY})\s+)?(%[^\s,()]+|[A-Za-z_][^\s,()\[\]{{}}]*)\s*(?:,|$)")
_COMMENT = re.compile(r"/\*.*?\*/")
_METADATA = re.compile(r'\bmetadata=\{((?:[^"}\n]++|"(?:[^"\\\n]++|\\.)*+")*+)\}')
_COMPUTATION = re.compile(r"(ENTRY )?%?([^\s(){},=]+) (?:\(.*)?\{\s*$")
_CALLED = re.compile(
    r"\b(to_apply|calls|body|condition|select|scatter|branch_computations|true_computation|false_computation"
    r"|called_computations|comparator)=(?:\{([^}\n]*)\}|%?([^\s,{}]+))"
)
_DETAIL = re.compile(r'\b(algorithm=\w+|operand_precision=\{[^}\n]*\}|custom_call_target="[^"\n]*")')
_FORMAT = re.compile(r"exponent_bits=(\d+).*?mantissa_bits=(\d+)|mantissa_bits=(\d+).*?exponent_bits=(\d+)")
_INDEX = re.compile(r"\bindex=(\d+)")

# How an HLO operation hands values on, where a loop may carry a sum through it.
_FLOW: dict[str, FlowKind] = {
    "parameter": "parameter",
    "get_tuple_element": "element",
    "tuple": "tuple",
    "add": "sum",
    "subtract": "sum",
    **dict.fromkeys(("convert", "copy", "bitcast", "reshape", "transpose", "reduce_precision"), "through"),
    **dict.fromkeys(("opt_barrier", "select"), "through"),
    **dict.fromkeys(("call", "fusion"), "call"),
}
_CALLERS = frozenset(("call", "fusion", "while", "conditional", "map", "sort", "async_start")) | REDUCTIONS


def read(lines: Iterable[str]) -> list[Module]:
    """The modules that HLO text describes. What can't be read is in `problems`, and the rest is read all the same."""
    numbered = enumerate(lines, 1)
    modules: list[Module] = []
    heading: _Line | None = None
    while heading is not None or not modules:
        reader = _Reader()
        heading = reader.read(numbered, heading)
        modules.append(reader.module)
    return modules


def operation_name(hlo: str) -> str:
    """The name that `Instruction.operation` has for an HLO operation."""
    return hlo.replace("-", "_")


_Line = tuple[int, str]  # its number and its text


class _Reader:
    def __init__(self) -> None:
        self.module = Module("HLO")
        self.tables = Tables()
        self.module.metadata = self.tables.of_hlo
        self.computation: Computation | None = None
        self.types: dict[str, str] = {}  # of this computation: instruction -> the text of its type
        self.shapes: dict[str, tuple[TensorType, ...]] = {}  # the text of a type -> its tensors, for the whole module
        self.section = ""

    def read(self, numbered: Iterator[_Line], heading: _Line | None) -> _Line | None:
        """Reads one module, whose heading may have been read already; the heading of the next one, if there is one."""
        if heading is not None:
            self.other(*heading)
        module, match_instruction = self.module, _INSTRUCTION.match
        number, line, following = 0, "", None
        for number, line in numbered:
            matched = match_instruction(line)
            if matched is None or self.computation is None:
                if line.startswith("HloModule") and module.name:
                    following = (number, line)
                    break
                self.other(number, line)
                continue
            module.instructions += 1
            if matched[4] == "constant" and ")" not in line:
                self.skip_literal(numbered)
            try:
                self.instruction(number, line, matched)
            except UnknownElement as error:
                module.unread(number, matched.start(3) + error.offset + 1, str(error))
        if self.computation is not None:
            name = self.computation.name
            if following is not None:
                module.unread(number, 1, f"a module begins inside {name}")
            else:
                module.unread(number, len(line.rstrip("\n")) + 1, f"the text ends inside {name}")
            self.close()
        elif module.name and not any(c.is_entry for c in module.computations.values()):
            at = (following[0], 1) if following is not None else (number, len(line.rstrip("\n")) + 1)
            module.unread(*at, f"the module {module.name} ends before its ENTRY computation")
        return following

    def skip_literal(self, numbered: Iterator[tuple[int, str]]) -> None:
        """Skips the further lines of a literal that is printed over several."""
        for _, line in numbered:
            if ")" in line:
                return

    def instruction(self, number: int, line: str, matched: re.Match[str]) -> None:
        is_root, name, shape, hlo = matched.groups()
        assert self.computation is not None
        self.types[name] = shape
        results = self.shapes.get(shape)
        if results is None:
            results = self.shapes.setdefault(shape, of_hlo(shape))
        operation = operation_name(hlo)
        if is_root:
            self.computation.results = (name,)
        if not self.computation.is_entry:
            if operation != "parameter" and len(results) == 1:
                self.computation.saw(operation, results[0].dtype)
            if operation in _FLOW:
                self.follow(name, operation, results, line, matched.end())
        if operation in KEPT:
            self.keep(number, line, matched.end(), operation, results)
        elif operation in _CALLERS:
            self.calls(number, line, operation, results)
        if "64[" in shape or "c128[" in shape:
            doubles = tuple(r for r in results if r.dtype.name in ("float64", "complex128"))
            if doubles:
                reference = self.reference(line)
                self.module.doubles.append(
                    Instruction(number, operation, doubles, (), self.computation.name, reference)
                )

    def keep(self, number: int, line: str, start: int, operation: str, results: tuple[TensorType, ...]) -> None:
        assert self.computation is not None
        operands = tuple(self.operand_types(number, line, start))
        reference = self.reference(line)
        called = self.calls(number, line, operation, results) if operation in REDUCTIONS else ()
        detail = ""
        if operation in CONTRACTIONS or operation in CUSTOM_CALLS:
            detail = ", ".join(_DETAIL.findall(line, start))
        elif operation in ROUNDINGS:
            found = _FORMAT.search(line, start)
            if found is None:
                self.module.unread(number, start + 1, "a reduce-precision without exponent_bits and mantissa_bits")
                return
            exponent, mantissa = int(found[1] or found[4]), int(found[2] or found[3])
            detail = with_format(exponent, mantissa)
            if mantissa <= 10 and results:  # noted as the format, which is what the values are rounded to
                self.computation.saw(operation, of_hlo({7: "bf16[]"}.get(mantissa, "f16[]"))[0].dtype)
        kept = Instruction(number, operation, results, operands, self.computation.name, reference, called, detail)
        self.module.kept.append(kept)

    def operand_types(self, number: int, line: str, start: int) -> Iterator[TensorType | None]:
        inside = _PARENTHESIZED.match(line, start)
        if inside is None:
            self.module.unread(number, start + 1, "the parenthesis around the operands is not closed")
            return
        text = inside[0][1:-1]
        for operand in _OPERAND.finditer(_COMMENT.sub("", text) if "/*" in text else text):
            shape = operand[1] or self.types.get(operand[2].lstrip("%"))
            if shape is None:
                column = start + 2 + max(inside[0].find(operand[2]) - 1, 0)
                self.module.unread(number, column, f"{operand[2]} is not defined above in this computation")
                yield None
                continue
            found = self.shapes.get(shape)
            if found is None:
                found = self.shapes.setdefault(shape, of_hlo(shape))
            yield found[0] if len(found) == 1 else None

    def follow(self, name: str, operation: str, results: tuple[TensorType, ...], line: str, start: int) -> None:
        """Notes how a value goes through this computation."""
        assert self.computation is not None
        kind = _FLOW[operation]
        if kind == "sum" and not (results and results[0].dtype.is_inexact):
            return
        inside = _PARENTHESIZED.match(line, start)
        text = inside[0][1:-1] if inside is not None else ""
        if kind == "parameter":
            index = int(text) if text.isdecimal() else 0
            self.computation.flow[name] = Flow(kind, index=index)
            return
        operands = tuple(o[2].lstrip("%") for o in _OPERAND.finditer(_COMMENT.sub("", text)))
        found = _INDEX.search(line, start) if kind == "element" else None
        callee = ""
        if kind == "call":
            called = _CALLED.search(line, start)
            callee = (called[3] or called[2] or "").lstrip("%") if called is not None else ""
        narrow = results[0].dtype if len(results) == 1 and results[0].dtype.is_narrow else None
        self.computation.flow[name] = Flow(kind, operands, int(found[1]) if found is not None else 0, callee, narrow)

    def calls(self, number: int, line: str, operation: str, results: tuple[TensorType, ...]) -> tuple[str, ...]:
        """Notes which computations an instruction calls; their names."""
        assert self.computation is not None
        reference = self.reference(line)
        names: list[str] = []
        for keyword, several, one in _CALLED.findall(line):
            found = [text.strip().lstrip("%") for text in (several or one).split(",")]
            names += found
            if keyword == "body" and operation == "while":
                self.module.loops.append(Loop(number, self.computation.name, found[0], results, reference))
        for name in names:
            self.module.call(name, self.computation.name, reference)
        return tuple(names)

    def reference(self, line: str) -> str:
        found = _METADATA.search(line) if "metadata={" in line else None
        if found is None:
            return ""
        self.module.has_metadata = True
        return found[1]

    def other(self, number: int, line: str) -> None:
        """A line that is no instruction: a header, a table's row, a computation's beginning or end."""
        text = line.strip()
        if not text:
            self.section = ""
        elif text.startswith("}"):
            if self.computation is None:
                self.module.unread(number, line.index("}") + 1, "a closing brace that nothing opened")
            self.close()
        elif text.startswith("HloModule"):
            self.module.name = text.removeprefix("HloModule").split(",")[0].strip()
        elif text in SECTIONS:
            self.section = text
        elif self.section:
            if not self.tables.row(self.section, text):
                self.module.unread(number, 1, f"no row of the table {self.section}")
        elif text.startswith(("//", "/*")):
            return
        elif (opened := _COMPUTATION.match(text)) is not None:
            self.open(number, opened)
        else:
            self.broken(number, line)

    def open(self, number: int, opened: re.Match[str]) -> None:
        if self.computation is not None:
            self.module.unread(number, 1, f"{opened[2]} begins inside {self.computation.name}")
            self.close()
        self.computation = Computation(opened[2], is_entry=bool(opened[1]))

    def close(self) -> None:
        if self.computation is not None:
            self.module.computations[self.computation.name] = self.computation
        self.computation = None
        self.types = {}

    def broken(self, number: int, line: str) -> None:
        """Says in which column a line stops being an instruction."""
        start = len(line) - len(line.lstrip())
        if self.computation is None:
            self.module.unread(number, start + 1, "an instruction outside of a computation, or no HLO")
            return
        position, missing = start, "a name"
        parts = (
            (r"(ROOT )?%?[^\s=(){},]+", '" = "'),
            (r" = ", "a type"),
            (rf"(?:{_ARRAY}|{_NESTED})", "an operation"),
            (r" [\w\-]+", '"("'),
        )
        for pattern, following in parts:
            found = re.compile(pattern).match(line, position)
            if found is None:
                break
            position, missing = found.end(), following
        self.module.unread(number, position + 1, f"{missing} was expected")

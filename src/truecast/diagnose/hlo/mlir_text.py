"""StableHLO as MLIR text: pretty and generic form, with and without locations.

An operation is one line, or two where it holds regions: the one that opens them has its name, the one that closes them
its types. Reads stablehlo, mhlo and func; operations of other dialects are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from truecast.diagnose.hlo.metadata import Locations
from truecast.diagnose.hlo.module import (
    CONTRACTIONS,
    CUSTOM_CALLS,
    KEPT,
    REDUCTIONS,
    Computation,
    Flow,
    FlowKind,
    Instruction,
    Loop,
    Module,
)
from truecast.diagnose.hlo.types import TensorType, UnknownElement, of_mlir, with_format

_OPERATION = re.compile(
    r'\s*(?:(%[\w$.\-]+)(?::\d+)?(?:, %[\w$.\-:]+)* = )?("?)([A-Za-z_][\w$]*(?:\.[\w$]+)*)\2(?=[\s("<{@]|$)'
)
_ARGUMENT = re.compile(r"(%[\w$.\-]+): (tensor<[^>]*>+)")
_OPERANDS = re.compile(r"%[\w$.\-]+(?:#\d+)?")
_ITERATED = re.compile(r"(%[\w$.\-]+) = (%[\w$.\-]+(?:#\d+)?)")
_SYMBOL = re.compile(r"@([\w$.\-]+)|@\"([^\"]*)\"")
_NAME = re.compile(r'sym_name = "([^"]*)"')
_CALLEE = re.compile(r"\b(?:callee|decomposition) = @([\w$.\-]+)|called_computations = \[([^\]]*)\]")
_APPLIES = re.compile(r"\bapplies (?:stablehlo|mhlo)\.(\w+)")
_ALGORITHM = re.compile(
    r"lhs_precision_type = (\w+), rhs_precision_type = (\w+), accumulation_type = (\w+)"
    r".*?num_primitive_operations = (\d+)"
)
_PRECISION = re.compile(r"\bprecision(?:_config)? = \[([^\]]*)\]")
_TARGET = re.compile(r'custom_call @"?([\w$.\-]+)|call_target_name = "([^"]*)"')
_FORMAT = re.compile(r"\be(\d+)m(\d+)\b|exponent_bits = (\d+).*?mantissa_bits = (\d+)")
# What MLIR prints for people (pretty debug info, as torch_xla's get_stablehlo has it) instead of `loc(...)`.
_BARE_LOCATION = re.compile(
    r' (\[unknown\]|"(?:[^"\\\n]|\\.)*"(?:\((?:[^()%>\n]|\([^()%>\n]*\))*\))?|#loc\d*'
    r'|[^\s"()]+:\d+:\d+(?: to [\d:]+)?)$'
)
_LONGEST_LOCATION = 4096
_DIALECTS = frozenset(("stablehlo", "mhlo"))
_CALLS = frozenset(("func.call", "call", "stablehlo.composite"))
_RETURNS = frozenset(("stablehlo.return", "mhlo.return", "func.return", "return"))
_FLOW: dict[str, FlowKind] = {
    "add": "sum",
    "subtract": "sum",
    **dict.fromkeys(("convert", "reshape", "transpose", "reduce_precision", "optimization_barrier"), "through"),
    **dict.fromkeys(("broadcast_in_dim", "select"), "through"),
}
_SAME = {"dot_general": "dot"}


@dataclass(slots=True)
class _Operation:
    """An operation whose text has begun; its signature may stand where its regions end."""

    text_line: int
    column: int
    name: str
    result: str
    body: str
    computation: Computation
    called: list[str] = field(default_factory=list)
    is_closed: bool = False
    records: list[Instruction | Loop] = field(default_factory=list)  # what the module keeps of it


@dataclass(slots=True)
class _Frame:
    """An open brace: the computation that it holds, if it is not a plain module or attribute, and who owns it."""

    computation: Computation | None
    owner: _Operation | None


def read(lines: Iterable[str]) -> list[Module]:
    """The module that MLIR text describes. What can't be read is in `problems`, and the rest is read all the same."""
    return [_Reader().read(lines)]


class _Reader:
    def __init__(self) -> None:
        self.module = Module("StableHLO")
        self.locations = Locations()
        self.module.metadata = self.locations.of_mlir
        self.frames: list[_Frame] = []
        self.types: dict[str, tuple[TensorType, ...]] = {}  # of this function
        self.signatures: dict[str, tuple[tuple[TensorType, ...] | None, tuple[TensorType, ...]]] = {}
        self.alias_name = ""
        self.last: _Operation | None = None  # who a region belongs to that begins on the next line

    def read(self, lines: Iterable[str]) -> Module:
        number, line, resources = 0, "", False
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if resources or text.startswith("{-#"):
                resources = not text.endswith("#-}")
            elif not text or text.startswith("//"):
                continue
            elif text[0] == "#":
                self.alias(text)
            elif text.startswith("at "):
                self.locations.aliases[self.alias_name] = f"{self.locations.aliases.get(self.alias_name, '')} {text}"
            else:
                try:
                    self.line(number, line.rstrip(), text)
                except UnknownElement as error:
                    column = (
                        line.find(f"x{error.element}") + 2
                        if f"x{error.element}" in line
                        else line.find(error.element) + 1
                    )
                    self.module.unread(number, column, str(error))
        if self.frames:
            inside = next(
                (f.computation.name for f in reversed(self.frames) if f.computation is not None), "the module"
            )
            self.module.unread(number, len(line.rstrip("\n")) + 1, f"the text ends inside {inside}")
            while self.frames:
                self.pop()
        elif not self.module.instructions:
            self.module.unread(number, len(line.rstrip("\n")) + 1, "the text ends before its first operation")
        elif missing := self.locations.missing(kept.reference for kept in self.module.kept):
            what = f"the text ends before the location {missing[0]}" + f", and {len(missing) - 1} more" * (
                len(missing) > 1
            )
            self.module.unread(number, len(line.rstrip("\n")) + 1, what)
        return self.module

    def alias(self, text: str) -> None:
        """`#loc7 = loc(...)`, or the same for people, whose callers stand on lines of their own: `at #loc3`."""
        name, _, value = text.partition(" = ")
        if name.startswith("#loc"):
            self.locations.aliases[name] = value[4:-1] if value.startswith("loc(") else value
            self.alias_name = name

    @property
    def computation(self) -> Computation | None:
        return self.frames[-1].computation if self.frames else None

    def line(self, number: int, line: str, text: str) -> None:
        body, reference = _located(line)
        opens = body.endswith("{")
        if text[0] == "}":
            self.closing(number, line, body, reference)
        elif text.startswith("^"):
            self.arguments(text)
        elif text.startswith("reducer(") and opens:
            self.push(self.last)
            self.arguments(text)
        elif text in ("cond {", "do {", "{") or (opens and text.startswith(("cond ", "do "))):
            self.push(self.last)
        elif (matched := _OPERATION.match(body)) is None:
            self.module.unread(number, len(line) - len(line.lstrip()) + 1, "an operation was expected")
            if opens:
                self.push(None)
        elif matched[3] in ("module", "builtin.module", "func.func"):
            self.structure(number, matched[3], body, opens)
        elif matched[3] == "attributes" and self.last is not None:
            if opens:
                self.push(None)
        else:
            self.operation(number, body, reference, matched, opens)

    def structure(self, number: int, name: str, body: str, opens: bool) -> None:
        """A module or a function: a brace that holds others."""
        if not opens:
            return  # a function that is only declared
        if name != "func.func":
            symbol = _SYMBOL.search(body) or _NAME.search(body)
            if self.module.instructions and not self.frames:
                self.module.unread(number, 1, "a second module, whose locations can't be told from the first one's")
            self.module.name = self.module.name or (symbol[1] if symbol else "")
            self.frames.append(_Frame(None, None))
            return
        found = _NAME.search(body) or _SYMBOL.search(body)
        function = Computation(found[1] if found else "", is_entry=" private " not in body and '"private"' not in body)
        self.types = {}
        self.frames.append(_Frame(function, None))
        self.arguments(body)

    def push(self, owner: _Operation | None) -> None:
        outer = self.computation
        if owner is None or outer is None:
            self.frames.append(_Frame(outer, None))
            return
        region = Computation(f"{owner.name} at line {owner.text_line}, region {len(owner.called) + 1}")
        owner.called.append(region.name)
        self.frames.append(_Frame(region, owner))
        if owner.name == "while":
            for index, (name, initial) in enumerate(_ITERATED.findall(owner.body)):
                region.flow[name] = Flow("parameter", index=index)
                self.types[name] = self.type_of(initial)

    def pop(self) -> _Frame | None:
        if not self.frames:
            return None
        frame = self.frames.pop()
        if frame.computation is not None and (not self.frames or frame.computation is not self.computation):
            self.module.computations[frame.computation.name] = frame.computation
        return frame

    def arguments(self, text: str) -> None:
        """The parameters of a function or region, with their types."""
        computation = self.computation
        for index, (name, shape) in enumerate(_ARGUMENT.findall(text)):
            self.types[name] = of_mlir(shape)
            if computation is not None and not computation.is_entry:
                computation.flow[name] = Flow("parameter", index=index)

    def closing(self, number: int, line: str, body: str, reference: str) -> None:
        """A line that begins with a closing brace: the end of a region, and often of the operation that holds it."""
        frame = self.pop()
        if frame is None:
            self.module.unread(number, line.index("}") + 1, "a closing brace that nothing opened")
            return
        owner = frame.owner
        if body.endswith("{"):
            self.push(owner)
        elif owner is not None:
            if not owner.is_closed:
                self.finish(owner, body, reference)
            for record in owner.records:  # the pretty forms have their types before their regions, the location behind
                record.reference = reference
                if isinstance(record, Instruction):
                    record.called = record.called or tuple(owner.called)
            for callee in owner.called:
                self.module.call(callee, owner.computation.name, reference)
            self.last = owner

    def operation(self, number: int, body: str, reference: str, matched: re.Match[str], opens: bool) -> None:
        computation = self.computation
        if computation is None:
            if "." not in matched[3]:
                self.module.unread(
                    number, matched.start(3) + 1, f"{matched[3]!r} is no operation, or outside of a function"
                )
            return
        self.module.instructions += 1
        full = matched[3]
        dialect, _, short = full.rpartition(".")
        name = _SAME.get(short, short) if dialect in _DIALECTS else full
        found = _Operation(number, matched.start(3) + 1, name, matched[1] or "", body, computation)
        self.last = found
        if full in _RETURNS:
            computation.results = tuple(
                _OPERANDS.findall(body[: _signature_at(body)] if _signature_at(body) >= 0 else body)
            )
        elif opens:
            self.push(found)
        else:
            self.finish(found, body, reference)

    def finish(self, operation: _Operation, closing: str, reference: str) -> None:
        """Reads the types of an operation whose text is complete, and keeps of it what matters."""
        operation.is_closed = True
        if reference:
            self.module.has_metadata = True
        at = _signature_at(closing)
        name, computation = operation.name, operation.computation
        if at < 0:
            if name in KEPT:
                self.module.unread(operation.text_line, operation.column, f"{name} has no types")
            return
        operands, results = self.signature(closing[at + 3 :])
        if operands is None:  # `a, b`: the last one is the result's, of a while they all are
            count = max(
                len(_OPERANDS.findall(operation.body[: _signature_at(operation.body)])) - bool(operation.result), 1
            )
            operands = results * count if len(results) == 1 else results
            results = results if name == "while" else results[-1:]
        if operation.result:
            self.types[operation.result] = results
        if name in _CALLS:
            self.called(operation, closing, reference)
        if not computation.is_entry and name != "constant" and len(results) == 1:
            computation.saw(name, results[0].dtype)
        self.follow(operation, results)
        if name == "while":
            body = operation.called[-1] if operation.called else f"while at line {operation.text_line}, region 2"
            loop = Loop(operation.text_line, computation.name, body, results, reference)
            self.module.loops.append(loop)
            operation.records.append(loop)
        if name in KEPT:
            detail = self.detail(operation)
            called = tuple(operation.called)
            if name in REDUCTIONS and (applied := _APPLIES.search(operation.body)) is not None and results:
                combiner = Computation(f"{applied[1]} at line {operation.text_line}")
                combiner.saw(applied[1], results[0].dtype)
                self.module.computations[combiner.name] = combiner
                called = (combiner.name,)
            kept = Instruction(
                operation.text_line, name, results, operands, computation.name, reference, called, detail
            )
            self.module.kept.append(kept)
            operation.records.append(kept)
        doubles = tuple(r for r in results if r.dtype.name in ("float64", "complex128"))
        if doubles:
            double = Instruction(operation.text_line, name, doubles, (), computation.name, reference)
            self.module.doubles.append(double)
            operation.records.append(double)

    def signature(self, text: str) -> tuple[tuple[TensorType, ...] | None, tuple[TensorType, ...]]:
        """The operands' and the results' types of `(a, b) -> c`; None and all types of `a, b`."""
        known = self.signatures.get(text)
        if known is None:
            before, arrow, after = text.rpartition(" -> ")
            known = self.signatures[text] = (of_mlir(before) if arrow else None, of_mlir(after))
        return known

    def type_of(self, name: str) -> tuple[TensorType, ...]:
        """The type of `%a` or of `%a#1`."""
        base, _, index = name.partition("#")
        found = self.types.get(base, ())
        return found[int(index) : int(index) + 1] if index else found

    def called(self, operation: _Operation, closing: str, reference: str) -> None:
        found = _CALLEE.search(closing)
        names = [found[1]] if found is not None and found[1] else []
        if not names and (symbol := _SYMBOL.search(operation.body)) is not None:
            names = [symbol[1] or symbol[2]]
        for name in names:
            self.module.call(name, operation.computation.name, reference)
            if not operation.computation.is_entry and operation.result:
                operands = tuple(_OPERANDS.findall(operation.body[: _signature_at(operation.body)])[1:])
                operation.computation.flow[operation.result] = Flow("call", operands, callee=name)

    def follow(self, operation: _Operation, results: tuple[TensorType, ...]) -> None:
        """Notes how a value goes through this computation."""
        kind = _FLOW.get(operation.name)
        if kind is None or operation.computation.is_entry or len(results) != 1 or not results[0].dtype.is_inexact:
            return
        operands = tuple(_OPERANDS.findall(operation.body[: _signature_at(operation.body)])[1:])
        narrow = results[0].dtype if results[0].dtype.is_narrow else None
        operation.computation.flow[operation.result] = Flow(kind, operands, narrow=narrow)

    def detail(self, operation: _Operation) -> str:
        body = operation.body
        if operation.name == "reduce_precision":
            found = _FORMAT.search(body)
            return with_format(int(found[1] or found[3]), int(found[2] or found[4])) if found is not None else ""
        if operation.name in CUSTOM_CALLS:
            target = _TARGET.search(body)
            return f'custom_call_target="{target[1] or target[2]}"' if target is not None else ""
        if operation.name not in CONTRACTIONS:
            return ""
        words = []
        if (algorithm := _ALGORITHM.search(body)) is not None:
            lhs, rhs, accumulate, count = algorithm.groups()
            words.append(f"algorithm=dot_{lhs}_{rhs}_{accumulate}" + (f"_x{count}" if count != "1" else ""))
        if (precision := _PRECISION.search(body)) is not None:
            levels = [word.rpartition("precision ")[2].strip("#<> ").lower() for word in precision[1].split(",")]
            if any(level != "default" for level in levels):
                words.append(f"operand_precision={{{','.join(levels)}}}")
        return ", ".join(words)


def _located(line: str) -> tuple[str, str]:
    """A line without the location behind it, and that: the inside of `loc(...)`, or MLIR's form for people."""
    if line.endswith(")") and (at := line.rfind(" loc(")) >= 0:
        return line[:at], line[at + 5 : -1]
    if line.endswith((">", "{", ":")):
        return line, ""
    found = _BARE_LOCATION.search(line, max(len(line) - _LONGEST_LOCATION, 0))
    return (line, "") if found is None else (line[: found.start()], found[1])


def _signature_at(body: str) -> int:
    """Where the types of an operation begin, at " : "; -1 if it has none."""
    return max(body.rfind(" : ("), body.rfind(" : tensor<"), body.rfind(" : tuple<"), body.rfind(" : !"))

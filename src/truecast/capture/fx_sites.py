"""Sites of FX nodes: an FX graph keeps a traceback as text, a Site also has the sub-expression's columns.

Imports the leaves only. The traceback that torch.compile leaves has carets under the sub-expression; the one
that torch.export leaves names the line and the torch function that was called. The user's file is compiled
(never run) to know where on that line each operation stands, in the order in which Python evaluates them, and
columns are given only where the traceback fits one place: an unknown column is better than a wrong one.
"""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from types import CodeType, TracebackType
from typing import Any

from truecast.sites import UNKNOWN, Phase, Site, is_framework_file, resolve

_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$')
_CARETS = re.compile(r"^\s*[~^]+\s*$")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a traceback's text. `carets` is the (start, end) of the marked characters, from 0, in the
    source line without its indentation; the end is None where it is unknown. None where the traceback has no marks."""

    file: str
    line: int
    function: str
    carets: tuple[int, int | None] | None = None


@functools.lru_cache(maxsize=65536)
def frames(stack_trace: str) -> tuple[Frame, ...]:
    """The frames of a traceback's text, outermost first."""
    found: list[Frame] = []
    indent = 0
    for line in stack_trace.split("\n"):
        match = _FRAME.match(line)
        if match is not None:
            found.append(Frame(match["file"], int(match["line"]), match["function"].strip()))
            indent = -1
        elif found and indent < 0:
            indent = len(line) - len(line.lstrip())
        elif found and _CARETS.match(line):
            start, end = len(line) - len(line.lstrip()) - indent, len(line.rstrip()) - indent
            found[-1] = Frame(found[-1].file, found[-1].line, found[-1].function, (start, end))
    return tuple(found)


def user_frames(stack_trace: str) -> tuple[Frame, ...]:
    """The frames up to the innermost one that is not a framework's; all frames if every one is."""
    every = frames(stack_trace)
    for count in range(len(every), 0, -1):
        if not is_framework_file(every[count - 1].file):
            return every[:count]
    return every


def site_of_traceback(traceback: TracebackType | None) -> Site:
    """The innermost user's position in an exception's traceback."""
    site = UNKNOWN
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_framework_file(code.co_filename):
            site = resolve(code, traceback.tb_lasti)
        traceback = traceback.tb_next
    return site


# ------------------------------------------------------------------------------ operations on a source line


@dataclass(frozen=True, slots=True)
class Place:
    """An operation in the source: columns count from 1 in characters, `names` are what torch may call it."""

    line: int
    column: int
    end_line: int
    end_column: int
    names: frozenset[str]


# What the torch function behind a Python operator is called, without underscores at the ends.
_OPERATORS = {
    "+": "add radd iadd",
    "-": "sub rsub isub subtract",
    "*": "mul rmul imul multiply",
    "/": "div rdiv idiv truediv rtruediv itruediv true_divide reciprocal",
    "//": "floordiv rfloordiv ifloordiv floor_divide",
    "%": "mod rmod imod remainder",
    "**": "pow rpow ipow",
    "@": "matmul rmatmul imatmul",
    "&": "and rand iand bitwise_and",
    "|": "or ror ior bitwise_or",
    "^": "xor rxor ixor bitwise_xor",
    "<<": "lshift rlshift ilshift bitwise_left_shift",
    ">>": "rshift rrshift irshift bitwise_right_shift",
    "<": "lt gt less",
    "<=": "le ge less_equal",
    ">": "gt lt greater",
    ">=": "ge le greater_equal",
    "==": "eq",
    "!=": "ne not_equal",
}
_UNARY = {"UNARY_NEGATIVE": "neg", "UNARY_INVERT": "invert bitwise_not logical_not", "UNARY_NOT": "bool"}


def torch_name(name: str) -> str:
    """A torch function's name as `Place.names` has it: "function.__rsub__" and "relu_" become "rsub" and "relu"."""
    return name.rsplit(".", 1)[-1].strip("_")


class _Source:
    """One source file, compiled but never run."""

    def __init__(self, file: str) -> None:
        self.lines = linecache.getlines(file)
        self.codes: list[CodeType] = []
        self.callees: dict[tuple[int, int], str] = {}  # (end line, end byte) of a call -> the name that is called
        self.called: set[tuple[int, int]] = set()  # (end line, end byte) of what is called: no property is read there
        if not self.lines:
            return
        text = "".join(self.lines)
        try:
            tree = ast.parse(text, file)
            module = compile(text, file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):  # not Python, or changed since: lines are all there is
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self.callees[node.end_lineno or 0, node.end_col_offset or 0] = _callee(node.func)
                self.called.add((node.func.end_lineno or 0, node.func.end_col_offset or 0))
        pending = [module]
        while pending:
            code = pending.pop()
            self.codes.append(code)
            pending.extend(c for c in code.co_consts if isinstance(c, CodeType))

    def codes_at(self, line: int, function: str) -> list[CodeType]:
        """The code objects named `function` that have an instruction on this line."""
        return [code for code in self.codes if code.co_name == function and line in _instructions(code)]

    def character(self, line: int, byte: int) -> int:
        """A byte offset from 0 as a character column from 1."""
        text = self.lines[line - 1]
        return byte + 1 if text.isascii() else len(text.encode()[:byte].decode(errors="replace")) + 1


def _callee(function: ast.expr) -> str:
    """The last word of what is called: `split` in x.split(2), `proj` in self.proj(x), `0` in self.layers[0](x)."""
    if isinstance(function, ast.Attribute):
        return function.attr
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Subscript) and isinstance(function.slice, ast.Constant):
        return str(function.slice.value)
    return ""


@functools.lru_cache(maxsize=4096)
def _instructions(code: CodeType) -> dict[int, list[dis.Instruction]]:
    """The instructions of a function by the line on which their operation begins, in order."""
    table: dict[int, list[dis.Instruction]] = {}
    for instruction in dis.get_instructions(code):
        positions = instruction.positions
        if positions is not None and positions.lineno is not None and None not in positions:
            table.setdefault(positions.lineno, []).append(instruction)
    return table


@functools.lru_cache(maxsize=512)
def _source(file: str) -> _Source:
    return _Source(file)


@dataclass(frozen=True, slots=True)
class _Line:
    """What stands on one line of one function: its qualified name, its operations in the order of their
    evaluation, and whether each of them is evaluated exactly once when the line runs."""

    qualname: str
    places: tuple[Place, ...]
    straight: bool


@functools.lru_cache(maxsize=65536)
def _line(file: str, line: int, function: str) -> _Line:
    source = _source(file)
    codes = source.codes_at(line, function)
    if len(codes) != 1:  # no source, or two functions of one name on one line
        return _Line(function, (), False)
    places: list[Place] = []
    straight = True
    for instruction in _instructions(codes[0])[line]:
        positions = instruction.positions
        assert positions is not None
        if "JUMP" in instruction.opname or instruction.opname in ("FOR_ITER", "SEND"):
            straight = False
        end = (positions.end_lineno or 0, positions.end_col_offset or 0)
        if instruction.opname == "LOAD_ATTR" and end in source.called:
            continue
        names = _names(instruction, source.callees.get(end, ""))
        if names is not None:
            places.append(
                Place(
                    line,
                    source.character(line, positions.col_offset or 0),
                    positions.end_lineno or line,
                    source.character(positions.end_lineno or line, positions.end_col_offset or 0),
                    names,
                )
            )
    return _Line(codes[0].co_qualname, tuple(places), straight)


def _names(instruction: dis.Instruction, callee: str) -> frozenset[str] | None:
    """What torch may call this instruction's operation; None if it is none."""
    name = instruction.opname
    if name in ("BINARY_OP", "COMPARE_OP"):
        operator = instruction.argrepr.removeprefix("bool(").removesuffix(")")
        return frozenset(_OPERATORS.get(operator.removesuffix("=") if name == "BINARY_OP" else operator, "").split())
    if name in _UNARY:
        return frozenset(_UNARY[name].split())
    if name in ("BINARY_SUBSCR", "BINARY_SLICE"):
        return frozenset(("getitem",))
    if name in ("STORE_SUBSCR", "STORE_SLICE"):
        return frozenset(("setitem",))
    if name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX"):
        return frozenset((callee.strip("_"),))
    if name == "LOAD_ATTR":  # a property: x.T, x.real
        return frozenset((instruction.argval.strip("_"),)) if isinstance(instruction.argval, str) else None
    return None


# ------------------------------------------------------------------------------------------ sites of nodes


@dataclass(frozen=True, slots=True)
class Call:
    """What an FX node knows of the call that made it. Nodes of one Python call have equal `identity`;
    `name` is the torch function's name, `module` the path of the running module."""

    frames: tuple[Frame, ...]
    inner: Frame | None  # the frame that the user's frame called into, if it shows
    name: str
    identity: object
    module: str
    phase: Phase


def call_of(meta: Mapping[str, Any], op: str, identity: object, phase: Phase, owner: str = "") -> Call:
    """The Call behind an FX node's metadata; `op` is its overload, `identity` stands in where torch gives none.

    Module paths are relative to the module at `owner`. In a graph that does both passes, nodes of the backward pass
    and of an optimizer are known by their metadata.
    """
    text = meta.get("stack_trace") or meta.get("fwd_stack_trace") or ""
    every, own = frames(text), user_frames(text)
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    name = op.split(".")[1]
    exported = meta.get("torch_fn")  # ("mul_1", "method_descriptor.mul")
    compiled = meta.get("source_fn_stack") or meta.get("fwd_source_fn_stack")  # [..., ("mul_1", <function mul>)]
    if exported:
        identity, name = exported
    elif compiled:
        identity, function = compiled[-1]
        name = function if isinstance(function, str) else getattr(function, "__name__", name)
        if isinstance(function, type):  # a module of torch.nn, which the user's line calls by its own name
            name = module_path(stack).rsplit(".", 1)[-1]
    if own and not exported:
        own = (*own[:-1], _open_ended(own[-1]))
    inner = every[len(own)] if len(every) > len(own) else None
    if phase == "forward":
        if meta.get("autograd_backward"):
            phase = "backward"
        elif any("/torch/optim/" in frame.file for frame in every):
            phase = "optimizer"
    module = module_path(stack)
    if owner:
        module = module.removeprefix(owner).removeprefix(".")
    return Call(own, inner, torch_name(name), identity, module, phase)


def _open_ended(frame: Frame) -> Frame:
    """A frame of torch.compile's, which says where an expression begins, and marks the rest of the line."""
    length = len(linecache.getline(frame.file, frame.line).strip())
    start, end = frame.carets or (0, length)  # Python leaves out marks under a whole line
    return frame if end is not None and end < length else replace(frame, carets=(start, None))


def module_path(stack: Mapping[str, Any]) -> str:
    """The running module's path relative to the root, from FX's nn_module_stack ("" for the root itself)."""
    paths = [entry[0] for entry in stack.values()]
    if not paths:
        return ""
    path, root = _dotted(paths[-1]), _dotted(paths[0])
    if paths[0].startswith(("L[", "G[")):  # torch.compile: a variable of the compiled function holds the root
        return path.partition(".")[2]
    return path if root == "" else path.removeprefix(root).removeprefix(".")


@functools.lru_cache(maxsize=65536)
def _dotted(path: str) -> str:
    """`L['self']._modules['layers'][0].mlp` as `self.layers.0.mlp`."""
    path = re.sub(r"^[LG]\['(\w+)'\]", r"\1", path)
    path = re.sub(r"\['?([^\]']+)'?\]", r".\1", path).replace("._modules.", ".")
    return re.sub(r"\.slice\(.*\)|\.__dict__", "", path)


# By (frame, identity of the call), and by (frame, None) for a node that has no identity.
Places = dict[tuple[Frame, object], Place | None]


def locate(calls: Iterable[Call], forward: Places | None = None) -> Iterator[Site]:
    """The Site of each Call, in order. Calls that follow each other on one line are looked at together.

    `forward` keeps where the calls of a forward pass are, for the nodes of its backward pass.
    """
    known = {} if forward is None else forward
    for _, group in groupby(calls, key=lambda call: (call.frames, call.phase) if call.frames else None):
        yield from _locate_group(list(group), known)


def _locate_group(group: list[Call], forward: Places) -> Iterator[Site]:
    """Sites of consecutive calls with the same frames."""
    if not group[0].frames:
        yield from (Site(module=call.module, phase=call.phase) for call in group)
        return
    frame = group[0].frames[-1]
    line = _line(frame.file, frame.line, frame.function)
    order: dict[str, list[object]] = {}  # for each name, its distinct calls in order
    for call in group:
        identities = order.setdefault(_called(call), [])
        if _identity(call) not in identities:
            identities.append(_identity(call))
    for call in group:
        key, any_call = (frame, _identity(call)), (frame, None)
        if call.phase == "backward" and (key in forward or any_call in forward):
            place = forward.get(key, forward.get(any_call))
        else:
            counted = order[_called(call)]
            index = None if call.phase == "backward" else counted.index(_identity(call))  # a backward pass runs back
            place = _place(frame, line, _called(call), index, len(counted))
            forward[key] = place
            if call.phase != "backward":  # None where calls on this frame are at several places
                forward[any_call] = place if forward.get(any_call, place) == place else None
        yield Site(
            file=frame.file,
            line=frame.line,
            column=place.column if place else 0,
            end_line=place.end_line if place else frame.line,
            end_column=place.end_column if place else 0,
            function=line.qualname,
            module=call.module,
            phase=call.phase,
        )


def _called(call: Call) -> str:
    """The name by which the user's line calls: the torch function, or the module or function in between."""
    if call.inner is None:
        return call.name
    if call.inner.function == "forward":
        return call.module.rsplit(".", 1)[-1].strip("_")
    return call.inner.function.strip("_")


def _identity(call: Call) -> object:
    """What tells two calls on one line apart: for a call into a module, the module."""
    return call.identity if call.inner is None else (call.module, call.inner)


def _place(frame: Frame, line: _Line, name: str, index: int | None, count: int) -> Place | None:
    """Where on its line the call is: number `index` (None: unknown) of `count` calls of `name` there."""
    places = line.places
    if frame.carets is not None:
        text = linecache.getline(frame.file, frame.line).rstrip()
        indent = len(text) - len(text.lstrip())
        start = indent + frame.carets[0] + 1
        places = tuple(place for place in places if place.column == start)
        if frame.carets[1] is not None:
            end = indent + frame.carets[1] + 1
            if end <= len(text):
                return Place(frame.line, start, frame.line, end, frozenset())
            # Marks to the end of the line: the expression ends there or on a later line.
            places = tuple(place for place in places if (place.end_line, place.end_column) >= (frame.line, end))
        if len({(place.end_line, place.end_column) for place in places}) == 1:
            return places[0]
        fitting = [place for place in places if name in place.names]
        if len(fitting) == 1:
            return fitting[0]
    fitting = [place for place in places if name in place.names]
    if count != len(fitting) or (count > 1 and (index is None or not line.straight)):
        return None
    return fitting[index or 0]

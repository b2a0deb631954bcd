"""The text form of a Graph: a person reads it, a diff shows what changed, and it parses back to an equal Graph.

Imports graph and the leaves only, so that a saved graph can be read without torch or jax. One line per thing:

    graph mlp
    file mlp.py = '/home/me/mlp.py'
    %weight: bfloat16[4,8] = parameter proj.weight
    %x: bfloat16[2,8] = input x
    %t: bfloat16[8,4] = aten.t.default(%weight)                       @ mlp.py:7:16-28 in Mlp.forward of proj
    %h: bfloat16[2,4] = aten.mm.default(%x, %t)                       @ mlp.py:7:16-28 in Mlp.forward of proj
    %v: float32[2], %i: int64[2] = aten.max.dim(%h, -1)               @ mlp.py:8 in Mlp.forward
    return %v
    mutation %state <- %i

A source reads file:line:column-end, with end as line:column where the span crosses lines; `file` lines give
each short name its full path (the shortest ending that is unique among the graph's files, so that adding a
file elsewhere changes no other line). Strings, and names that are not plain words, are Python literals.
Literals: None True False 3 1.5 -0.0 inf nan complex(1.0, -0.0) 'text' float32 #torch.strided [1, [2], []].
A NaN whose bits are not 0x7ff8000000000000 carries them: nan:0xfff8000000000000. Law: parse(render(g)) == g.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterable
from typing import Any, NoReturn, get_args

from truecast.dtypes import BY_NAME, DType
from truecast.errors import GraphError
from truecast.graph import Argument, Graph, Input, InputKind, Node, Output, Token, Value
from truecast.sites import UNKNOWN, Phase, Site

_QUIET_NAN = 0x7FF8_0000_0000_0000
_SOURCE_COLUMN = 88  # sources start here where the node leaves room; a fixed column keeps diffs to the changed line

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NAME = r"[\w.]+"  # what a value's name may be without quotes
_WORD = r"[\w.<>/+~-]+"  # what a path, a module path or a function may be without quotes
_name = re.compile(_NAME)
_word = re.compile(_WORD)


# ---------------------------------------------------------------------------------------------- rendering


def render(graph: Graph, *, sites: bool = True) -> str:
    """The graph as text, one line per input, node and output; `sites=False` leaves the sources out."""
    lines = [f"graph {_as_word(graph.name)}"]
    short = short_names(node.site.file for node in graph.nodes) if sites else {}
    lines.extend(f"file {_as_word(short[path])} = {path!r}" for path in sorted(short))
    for entry in graph.inputs:
        path = f" {_as_word(entry.path)}" if entry.path else ""
        lines.append(f"{_definition(entry.value)} = {entry.kind}{path}")
    rendered_sites: dict[Site, str] = {UNKNOWN: ""}
    for node in graph.nodes:
        line = _node(node)
        if sites:
            site = rendered_sites.get(node.site)
            if site is None:
                site = rendered_sites[node.site] = _site(node.site, short)
            if site:
                line = f"{line:<{_SOURCE_COLUMN}} {site}"
        lines.append(line)
    for output in graph.outputs:
        value = "None" if output.value is None else f"%{_as_name(output.value.name)}"
        target = f"mutation %{_as_name(output.target)} <-" if output.kind == "mutation" else "return"
        lines.append(f"{target} {value}")
    return "\n".join(lines) + "\n"


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """For each path, its shortest ending (whole components) that no other of the paths has."""
    distinct = {path for path in paths if path}
    endings: dict[str, int] = {}
    for path in distinct:
        for ending in _endings(path):
            endings[ending] = endings.get(ending, 0) + 1
    return {path: next((e for e in _endings(path) if endings[e] == 1), path) for path in distinct}


def _endings(path: str) -> list[str]:
    parts = path.split("/")
    return [ending for count in range(1, len(parts) + 1) if (ending := "/".join(parts[-count:]))]


def _as_name(text: str) -> str:
    return text if _name.fullmatch(text) else repr(text)


def _as_word(text: str) -> str:
    return text if _word.fullmatch(text) else repr(text)


def _definition(value: Value) -> str:
    scalar = " scalar" if value.scalar else ""
    return f"%{_as_name(value.name)}: {value.dtype.name}[{','.join(map(str, value.shape))}]{scalar}"


def _node(node: Node) -> str:
    outputs = ", ".join(["_" if v is None else _definition(v) for v in node.outputs]) or "()"
    arguments = [render_argument(a) for a in node.args]
    arguments += [f"{name}={render_argument(a)}" for name, a in node.kwargs]
    return f"{outputs} = {node.op}({', '.join(arguments)})"


def render_argument(argument: Argument) -> str:
    """One argument as it stands in a node's line."""
    cls = type(argument)
    if cls is Value:
        return f"%{_as_name(argument.name)}"
    if cls is tuple:
        return f"[{', '.join(map(render_argument, argument))}]"
    if cls is float:
        return _float(argument)
    if cls is complex:
        return f"complex({_float(argument.real)}, {_float(argument.imag)})"
    if cls is DType:
        return argument.name
    if cls is Token:
        return f"#{_as_word(argument.text)}"
    assert argument is None or cls in (bool, int, str), f"not an argument of a Graph: {argument!r}"
    return repr(argument)


def _float(number: float) -> str:
    if number == number:
        return repr(number)
    bits = struct.unpack("<Q", struct.pack("<d", number))[0]
    return "nan" if bits == _QUIET_NAN else f"nan:{bits:#018x}"


def _site(site: Site, short: dict[str, str]) -> str:
    start, end = (site.line, site.column), (site.end_line, site.end_column)
    text = f"@ {_as_word(short[site.file]) if site.file else '?'}"
    if start != (0, 0) or end != (0, 0):
        text += f":{site.line}"
        if site.column and site.end_line == site.line:
            text += f":{site.column}-{site.end_column}"
        elif (site.column, site.end_column, site.end_line) != (0, 0, site.line):
            text += f":{site.column}-{site.end_line}:{site.end_column}"
    if site.function:
        text += f" in {_as_word(site.function)}"
    if site.module:
        text += f" of {_as_word(site.module)}"
    return text if site.phase == "forward" else f"{text} ({site.phase})"


# ------------------------------------------------------------------------------------------------ parsing

_SPACE = re.compile(r"[ \t]*")
_DEFINITION = re.compile(rf"%({_NAME}|{_QUOTED}): ?(\w+)\[([\d,]*)\]( scalar\b)?")
_OPERATION = re.compile(r"([A-Za-z_]\w*\.[A-Za-z_]\w*\.\w+)\(")
_KEYWORD = re.compile(r"([A-Za-z_]\w*)=")
_ARGUMENT = re.compile(
    rf"(?P<value>%(?:{_NAME}|{_QUOTED}))"
    r"|(?P<float>-?(?:\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf\b)|nan\b(?::0x[0-9a-f]{16})?)"
    r"|(?P<int>-?\d+)"
    r"|(?P<open>\[)"
    r"|(?P<complex>complex\()"
    r"|(?P<word>[A-Za-z_]\w*)"
    rf"|(?P<string>{_QUOTED})"
    rf"|(?P<token>\#(?:{_WORD}|{_QUOTED}))"
)
_SITE = re.compile(
    rf"@ (?P<file>\?|{_WORD}|{_QUOTED})"
    r"(?::(?P<line>\d+)(?::(?P<column>\d+)-(?:(?P<end_line>\d+):)?(?P<end_column>\d+))?)?"
    rf"(?: in (?P<function>{_WORD}|{_QUOTED}))?(?: of (?P<module>{_WORD}|{_QUOTED}))?(?: \((?P<phase>\w+)\))?[ \t]*$"
)
_HEADER = re.compile(rf"graph ({_WORD}|{_QUOTED})[ \t]*$")
_FILE = re.compile(rf"file ({_WORD}|{_QUOTED}) = ({_QUOTED})[ \t]*$")
_INPUT = re.compile(rf"(\w+)(?: ({_WORD}|{_QUOTED}))?[ \t]*$")
_OUTPUT = re.compile(
    rf"(?:return|mutation %(?P<target>{_NAME}|{_QUOTED}) <-) (?:None|%(?P<value>{_NAME}|{_QUOTED}))[ \t]*$"
)
_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, **BY_NAME}
_INPUT_KINDS = get_args(InputKind)
_PHASES = get_args(Phase)


def parse(text: str, source: str = "<graph text>") -> Graph:
    """The Graph that `text` prints, verified. Raises GraphError with `source`, line and column of what is wrong."""
    if not isinstance(text, str):
        raise GraphError(f"a Graph's text is a string, not a {type(text).__name__}", where=source)
    return _Parser(text, source).graph()


class _Parser:
    def __init__(self, text: str, source: str) -> None:
        self.lines = text.split("\n")
        self.source = source
        self.number = 0  # of the current line, from 1
        self.line = ""
        self.defined: dict[str, Value] = {}
        self.files: dict[str, str] = {}  # short name -> path
        self.sites: dict[str, Site] = {}

    def graph(self) -> Graph:
        inputs: list[Input] = []
        nodes: list[Node] = []
        outputs: list[Output] = []
        name: str | None = None
        for number, line in enumerate(self.lines, 1):
            line = line.rstrip("\r")
            self.number, self.line = number, line
            if not line or line.isspace():
                continue
            if name is None:
                name = self._header()
            elif line.startswith("file "):
                self._file(before_nodes=not nodes)
            elif line.startswith(("return ", "mutation ")):
                outputs.append(self._output())
            elif outputs:
                self.fail(0, "expected 'return' or 'mutation': inputs and nodes come before outputs")
            else:
                entry = self._definition_line()
                if isinstance(entry, Node):
                    nodes.append(entry)
                elif nodes:
                    self.fail(0, "expected a node: inputs come before nodes")
                else:
                    inputs.append(entry)
        if name is None:
            self.fail(0, "expected 'graph NAME': the text is empty")
        return Graph(name, tuple(inputs), tuple(nodes), tuple(outputs)).verify()

    def fail(self, column: int, what: str, *, help: str | None = None) -> NoReturn:
        shown = self.line if len(self.line) <= 160 else self.line[max(0, column - 80) : column + 80]
        raise GraphError(
            what, where=f"{self.source}:{self.number}:{column + 1}", values=shown.strip() or None, help=help
        )

    def _header(self) -> str:
        match = _HEADER.match(self.line)
        if match is None:
            self.fail(0, "expected 'graph NAME' on the first line")
        return self._unquote(match, 1)

    def _file(self, before_nodes: bool) -> None:
        match = _FILE.match(self.line)
        if match is None:
            self.fail(len("file "), "expected a short name, '=' and a quoted path")
        short = self._unquote(match, 1)
        if short in self.files:
            self.fail(match.start(1), f"the file {short!r} is given twice")
        if not before_nodes:
            self.fail(0, "expected a node: files come before nodes")
        self.files[short] = self._unquote(match, 2)

    def _output(self) -> Output:
        match = _OUTPUT.match(self.line)
        if match is None:
            self.fail(0, "expected 'return %NAME', 'return None' or 'mutation %INPUT <- %NAME'")
        value = None if match["value"] is None else self._reference(match, "value")
        if match["target"] is None:
            return Output(value)
        return Output(value, "mutation", self._reference(match, "target").name)

    def _definition_line(self) -> Input | Node:
        line = self.line
        position = self._skip(0)
        outputs: list[Value | None] = []
        if line.startswith("()", position):
            position += 2
        else:
            while True:
                if line.startswith("_", position):
                    outputs.append(None)
                    position += 1
                else:
                    value, position = self._define(position)
                    outputs.append(value)
                position = self._skip(position)
                if not line.startswith(",", position):
                    break
                position = self._skip(position + 1)
        position = self._skip(self._expect("=", self._skip(position)))
        match = _OPERATION.match(line, position)
        if match is not None:
            return self._node_line(match, tuple(outputs))
        if len(outputs) == 1 and outputs[0] is not None:
            return self._input_line(position, outputs[0])
        self.fail(position, "expected an operation, namespace.name.overload(arguments)")

    def _input_line(self, position: int, value: Value) -> Input:
        match = _INPUT.match(self.line, position)
        if match is None or match[1] not in _INPUT_KINDS:
            kinds = ", ".join(_INPUT_KINDS)
            self.fail(position, f"expected namespace.name.overload(arguments), or an input kind ({kinds})")
        return Input(value, match[1], "" if match[2] is None else self._unquote(match, 2))  # type: ignore[arg-type]

    def _node_line(self, match: re.Match[str], outputs: tuple[Value | None, ...]) -> Node:
        line = self.line
        position = self._skip(match.end())
        arguments: list[Argument] = []
        keywords: list[tuple[str, Argument]] = []
        own = {v.name for v in outputs if v is not None}
        while not line.startswith(")", position):
            if arguments or keywords:
                position = self._skip(self._expect(",", position, "',' or ')'"))
            keyword = _KEYWORD.match(line, position)
            if keyword is not None:
                argument, position = self._argument(keyword.end(), own)
                keywords.append((keyword[1], argument))
            elif keywords:
                self.fail(position, "expected keyword=argument: positional arguments come first")
            else:
                argument, position = self._argument(position, own)
                arguments.append(argument)
            position = self._skip(position)
        position = self._skip(position + 1)
        return Node(match[1], tuple(arguments), tuple(keywords), outputs, self._site(position))

    def _argument(self, position: int, own: set[str]) -> tuple[Argument, int]:
        match = _ARGUMENT.match(self.line, position)
        if match is None:
            self.fail(position, "expected an argument: %NAME, a literal or [arguments]")
        end = match.end()
        group = match.lastgroup
        if group == "value":
            value = self._reference(match, "value")
            if value.name in own:
                self.fail(position, f"G2: %{value.name} is used before it is defined")
            return value, end
        if group == "int":
            return int(match["int"]), end
        if group == "float":
            return _parse_float(match["float"]), end
        if group == "word":
            if match["word"] not in _WORDS:
                self.fail(position, f"expected None, True, False, inf, nan or a dtype, not {match['word']!r}")
            return _WORDS[match["word"]], end
        if group == "string":
            return self._unquote(match, "string"), end
        if group == "token":
            return Token(self._unquote(match, "token", skip=1)), end
        if group == "complex":
            return self._complex(end)
        items: list[Argument] = []
        position = self._skip(end)
        while not self.line.startswith("]", position):
            if items:
                position = self._skip(self._expect(",", position, "',' or ']'"))
            item, position = self._argument(position, own)
            items.append(item)
            position = self._skip(position)
        return tuple(items), position + 1

    def _complex(self, position: int) -> tuple[complex, int]:
        parts: list[float] = []
        for end in (",", ")"):
            position = self._skip(position)
            match = _ARGUMENT.match(self.line, position)
            if match is None or match.lastgroup != "float":
                self.fail(position, "expected a float: complex(real, imaginary)")
            parts.append(_parse_float(match["float"]))
            position = self._expect(end, self._skip(match.end()))
        return complex(*parts), position

    def _site(self, position: int) -> Site:
        text = self.line[position:]
        if not text:
            return UNKNOWN
        known = self.sites.get(text)
        if known is not None:
            return known
        match = _SITE.match(self.line, position)
        if match is None:
            form = "@ FILE:LINE:COLUMN-END in FUNCTION of MODULE (PHASE)"
            self.fail(position, f"expected the end of the line or a source, {form}")
        short = "" if match["file"] == "?" else self._unquote(match, "file")
        if short and short not in self.files:
            self.fail(match.start("file"), f"no 'file' line gives the path of {short!r}")
        phase = match["phase"] or "forward"
        if phase not in _PHASES:
            self.fail(match.start("phase"), f"expected a phase ({', '.join(_PHASES)}), not {phase!r}")
        line = int(match["line"] or 0)
        site = self.sites[text] = Site(
            file=self.files[short] if short else "",
            line=line,
            column=int(match["column"] or 0),
            end_line=int(match["end_line"] or line),
            end_column=int(match["end_column"] or 0),
            function="" if match["function"] is None else self._unquote(match, "function"),
            module="" if match["module"] is None else self._unquote(match, "module"),
            phase=phase,  # type: ignore[arg-type]
        )
        return site

    def _define(self, position: int) -> tuple[Value, int]:
        match = _DEFINITION.match(self.line, position)
        if match is None:
            self.fail(position, "expected a value, %NAME: dtype[shape]")
        dtype = BY_NAME.get(match[2])
        if dtype is None:
            self.fail(match.start(2), f"expected a dtype, not {match[2]!r}", help=f"one of {', '.join(BY_NAME)}")
        try:
            shape = tuple(map(int, match[3].split(","))) if match[3] else ()
        except ValueError:
            self.fail(match.start(3), f"expected extents separated by single commas, not {match[3]!r}")
        value = Value(self._unquote(match, 1), dtype, shape, match[4] is not None)
        if value.name in self.defined:
            self.fail(position, f"G1: %{value.name} is defined twice")
        self.defined[value.name] = value
        return value, match.end()

    def _reference(self, match: re.Match[str], group: str) -> Value:
        name = self._unquote(match, group, skip=match[group].startswith("%"))
        value = self.defined.get(name)
        if value is None:
            self.fail(match.start(group), f"G2: %{name} is not defined on a line before this one")
        return value

    def _expect(self, mark: str, position: int, wanted: str | None = None) -> int:
        if not self.line.startswith(mark, position):
            self.fail(position, f"expected {wanted or repr(mark)}")
        return position + len(mark)

    def _skip(self, position: int) -> int:
        match = _SPACE.match(self.line, position)
        assert match is not None  # it matches the empty string
        return match.end()

    def _unquote(self, match: re.Match[str], group: int | str, skip: int = 0) -> str:
        text: str = match[group][skip:]
        if text[0] not in "'\"":
            return text
        if "\\" not in text:
            return text[1:-1]

        def character(escape: re.Match[str]) -> str:
            code = escape[0][1:]
            if code in _ESCAPED:
                return _ESCAPED[code]
            if len(code) == 1 or int(code[1:], 16) > sys.maxunicode:
                self.fail(match.start(group), f"expected a string as Python writes it; {escape[0]} is no escape")
            return chr(int(code[1:], 16))

        return _ESCAPE.sub(character, text[1:-1])


def _parse_float(text: str) -> float:
    if text.startswith("nan:"):
        return float(struct.unpack("<d", struct.pack("<Q", int(text[4:], 16)))[0])
    return float(text)

"""Where an instruction comes from: HLO's metadata and its tables, and MLIR's locations."""

from __future__ import annotations

import re
from collections.abc import Iterable

from truecast.diagnose.hlo.module import Metadata
from truecast.sites import is_framework_file

# The tables at the top of HLO text, in the order in which XLA prints them.
SECTIONS = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")

_NAMED_ROW = re.compile(r'(\d+) "(.*)"$')
_ROW = re.compile(r"(\d+) \{(.*)\}$")
_FIELD = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(\d+))')


class Tables:
    """The tables of one HLO module, by number."""

    def __init__(self) -> None:
        self.files: dict[int, str] = {}
        self.functions: dict[int, str] = {}
        self.locations: dict[int, dict[str, int]] = {}
        self.frames: dict[int, tuple[int, int]] = {}  # number -> (location, number of the calling frame; 0 for none)

    def row(self, section: str, text: str) -> bool:
        """Reads one row; whether it was one."""
        matched = (_NAMED_ROW if section in ("FileNames", "FunctionNames") else _ROW).match(text)
        if matched is None:
            return False
        number = int(matched[1])
        if section == "FileNames":
            self.files[number] = matched[2]
        elif section == "FunctionNames":
            self.functions[number] = matched[2]
        else:
            fields = {key: int(value) for key, _, value in _FIELD.findall(matched[2]) if value}
            if section == "FileLocations":
                self.locations[number] = fields
            else:
                # XLA counts parents from one more than frames: 1 says that there is none.
                self.frames[number] = (fields.get("file_location_id", 0), fields.get("parent_frame_id", 1) - 1)
        return True

    def of_hlo(self, reference: str) -> Metadata:
        """What the inside of `metadata={...}` says."""
        fields = {key: text or number for key, text, number in _FIELD.findall(reference)}
        file, line, column, function = fields.get("source_file", ""), int(fields.get("source_line", 0)), 0, ""
        if not file and "stack_frame_id" in fields:
            file, line, column, function = self._innermost(int(fields["stack_frame_id"]))
        return Metadata(fields.get("op_name", ""), fields.get("op_type", ""), file, line, column, function)

    def _innermost(self, frame: int) -> tuple[str, int, int, str]:
        """The innermost of the program's own frames; the innermost one where all are a framework's."""
        first: tuple[str, int, int, str] | None = None
        seen: set[int] = set()
        while frame in self.frames and frame not in seen:
            seen.add(frame)
            location, frame = self.frames[frame]
            fields = self.locations.get(location, {})
            file = self.files.get(fields.get("file_name_id", 0), "")
            function = self.functions.get(fields.get("function_name_id", 0), "")
            found = (file, fields.get("line", 0), fields.get("column", 0), function)
            if file and not is_framework_file(file):
                return found
            first = first or found
        return first or ("", 0, 0, "")


_ALIAS = re.compile(r"#loc\d*")
_NUMBERED = re.compile(r"#loc\d+")  # MLIR leaves out the unknown one, #loc, where it prints a part of a module
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_POSITION = re.compile(r":(\d+):(\d+)")
_BARE = re.compile(r'([^\s"()\[\]<>,#]+):(\d+):(\d+)')  # a position without quotes, as MLIR prints it for people


class Locations:
    """The locations of one MLIR module: the aliases `#loc7 = loc(...)`, wherever they stand."""

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}

    def of_mlir(self, reference: str) -> Metadata:
        """What the inside of `loc(...)` says: its first name, and the innermost of the program's own positions."""
        names: list[str] = []
        positions: list[tuple[str, int, int, str]] = []
        self._walk(reference, names, positions, 0)
        own = [p for p in positions if not is_framework_file(p[0])]
        file, line, column, function = (own or positions or [("", 0, 0, "")])[0]
        return Metadata(names[0] if names else "", "", file, line, column, function)

    def missing(self, references: Iterable[str]) -> list[str]:
        """The aliases among `references` that the text does not define, in order."""
        used = {r for r in references if _NUMBERED.fullmatch(r) is not None}
        return sorted(used - self.aliases.keys(), key=lambda alias: (len(alias), alias))

    def _walk(self, text: str, names: list[str], positions: list[tuple[str, int, int, str]], depth: int) -> None:
        """Collects names and positions from left to right, which is from the callee to its callers.

        A quoted string is a file where a position follows it, else a name; the name next to a position, function and
        all, is that of its function.
        """
        if depth > 64:  # an alias that leads to itself
            return
        at = 0
        while at < len(text):
            if (string := _STRING.match(text, at)) is not None:
                at = string.end()
                if (position := _POSITION.match(text, at)) is not None:
                    function = names[-1] if len(names) > 1 else ""
                    positions.append((string[1], int(position[1]), int(position[2]), function))
                    at = position.end()
                else:
                    names.append(string[1])
            elif (alias := _ALIAS.match(text, at)) is not None:
                self._walk(self.aliases.get(alias[0], ""), names, positions, depth + 1)
                at = alias.end()
            elif (bare := _BARE.match(text, at)) is not None:
                positions.append((bare[1], int(bare[2]), int(bare[3]), names[-1] if len(names) > 1 else ""))
                at = bare.end()
            else:
                at += 1

"""Which line of the user's source an operation comes from, down to the columns of the sub-expression.

A leaf: imports nothing of truecast, torch or jax. While recording, only (code object, instruction
offset) is kept, since that costs nothing; `resolve` turns it into a `Site` when somebody looks.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Literal

Phase = Literal["forward", "backward", "optimizer"]


@dataclass(frozen=True, slots=True)
class Site:
    """A source position: file, line, column span, function, module path, phase.

    Lines and columns count from 1, columns in characters; `end_column` is exclusive; 0 means unknown.
    `module` is the path of the nn.Module that was running ("layers.0.mlp"), "" outside of any.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    function: str = ""
    module: str = ""
    phase: Phase = "forward"

    def __str__(self) -> str:
        if not self.file:
            return "<unknown>"
        column = f":{self.column}" if self.column else ""
        return f"{os.path.basename(self.file)}:{self.line}{column}"

    @property
    def span(self) -> tuple[int, int, int, int]:
        """Line, column, end line, end column."""
        return self.line, self.column, self.end_line, self.end_column

    @property
    def text(self) -> str:
        """The source line, without its line end; "" if the source can't be read."""
        return source_line(self.file, self.line).rstrip("\n")

    @property
    def expression(self) -> str:
        """The source text of exactly this span on its first line; the whole stripped line without columns."""
        text = self.text
        if not self.column:
            return text.strip()
        end = self.end_column - 1 if self.end_line == self.line else len(text)
        return text[self.column - 1 : end]


UNKNOWN = Site()


def source_line(file: str, line: int) -> str:
    """A line of a source file with its line end; of a module that was imported from an archive, by its loader; "" where
    there is no source."""
    text = linecache.getline(file, line)
    if text or file in linecache.cache or not os.path.isabs(file):
        return text
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == file and linecache.lazycache(file, vars(module)):
            return linecache.getline(file, line)
    return ""


def resolve(code: CodeType, offset: int, module: str = "", phase: Phase = "forward") -> Site:
    """The Site of the instruction at byte `offset` (`frame.f_lasti`) of `code`."""
    return _resolve(code.co_filename, code, offset, module, phase)


@functools.lru_cache(maxsize=65536)
def _resolve(file: str, code: CodeType, offset: int, module: str, phase: Phase) -> Site:
    """`file` is in the key: two code objects that differ in nothing else are equal to Python."""
    positions = next(itertools.islice(code.co_positions(), max(offset, 0) // 2, None), (None, None, None, None))
    line, end_line, column, end_column = positions
    line = line or code.co_firstlineno
    end_line = end_line or line
    return Site(
        file=file,
        line=line,
        column=_character(file, line, column),
        end_line=end_line,
        end_column=_character(file, end_line, end_column),
        function=code.co_qualname,
        module=module,
        phase=phase,
    )


def _character(file: str, line: int, byte_offset: int | None) -> int:
    """A UTF-8 byte offset (from 0) as a character column (from 1); 0 if unknown."""
    if byte_offset is None:
        return 0
    text = source_line(file, line)
    if text.isascii():  # also when there is no source: the offset is the best that is known
        return byte_offset + 1
    return len(text.encode()[:byte_offset].decode(errors="replace")) + 1


_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_FRAMEWORKS = frozenset(("torch", "torch_xla", "torchax", "functorch", "torchgen", "jax", "jaxlib", "numpy"))


def is_own_file(filename: str) -> bool:
    """Whether a frame of this file is truecast's."""
    return filename.startswith(_OWN)


@functools.cache
def is_framework_file(filename: str) -> bool:
    """Whether a frame of this file belongs to a framework, to truecast or to Python, not to the program.

    Libraries of models (transformers, diffusers) count as the program: their lines are what a person reads.
    So does code without a file (`<stdin>`, `<string>`, a notebook's cell).
    """
    if filename.startswith("<frozen "):
        return True
    if is_own_file(filename):
        return True
    parts = filename.replace("\\", "/").split("/")
    for marker in ("site-packages", "dist-packages"):
        if marker in parts:
            last = len(parts) - 1 - parts[::-1].index(marker)
            return parts[last + 1].removesuffix(".py") in _FRAMEWORKS if last + 1 < len(parts) else False
    return filename.startswith((_STANDARD, *_source_checkouts()))


@functools.cache
def _source_checkouts() -> tuple[str, ...]:
    """The folders of frameworks that are imported from elsewhere than site-packages (an editable install)."""
    found = []
    for name in _FRAMEWORKS:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and "-packages" not in file:
            found.append(os.path.dirname(os.path.abspath(file)) + os.sep)
    return tuple(found)


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from `frame` outwards, that is not a framework's; None if there is none."""
    while frame is not None and is_framework_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame

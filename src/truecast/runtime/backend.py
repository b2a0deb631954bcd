"""What a Program asks of the runtime, put together: compiling, optimized HLO, saving."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from truecast import settings
from truecast.errors import UsageError
from truecast.lowering.program import Program
from truecast.runtime import archive
from truecast.runtime.cache import DiskCache
from truecast.runtime.compiled import CompiledProgram
from truecast.runtime.executable import Executables


@dataclass(frozen=True)
class Runtime:
    """Implements lowering.program.Backend."""

    executables: Executables = field(repr=False)

    def compile(self, program: Program, donate: tuple[str, ...]) -> CompiledProgram:
        names = [entry.value.name for entry in program.graph.inputs]
        for name in donate:
            if name not in names:
                raise UsageError(f"there is no input {name!r} to donate", help=f"the inputs are {', '.join(names)}")
        return CompiledProgram(program, self.executables.get(program, donate), donate)

    def optimized_hlo(self, program: Program) -> str:
        return self.executables.get(program).loaded.hlo

    def save(self, program: Program, path: str | PathLike[str]) -> None:
        archive.save(program, Path(path))


@functools.lru_cache(maxsize=8)
def _runtime(directory: Path | None, limit: int) -> Runtime:
    return Runtime(Executables(None if directory is None else DiskCache(directory, limit)))


def runtime() -> Runtime:
    """This process's runtime, over the cache directory that the environment names now."""
    return _runtime(settings.cache_directory(), settings.cache_limit())

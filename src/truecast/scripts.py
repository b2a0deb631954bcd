"""Runs a script as `python SCRIPT ARGS` would, and says why it did not run to its end: in one line, or as Python does.

Imports the leaves only.
"""

from __future__ import annotations

import io
import linecache
import os
import sys
import tokenize
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from truecast.errors import TruecastError, UsageError
from truecast.sites import is_framework_file, is_own_file


def run_script(script: Path, arguments: list[str]) -> str:
    """Runs `script` with __name__ = "__main__" in this process. Returns "" where it ran to its end or ended with exit
    code 0; else what stopped it. Raises UsageError for a file that is no Python program."""
    code = checked(script, script.resolve())
    process = os.getpid()
    try:
        with _as_main(script, arguments) as module:
            exec(code, module.__dict__)
    except SystemExit as end:
        stopped = "" if end.code in (None, 0) else f"{script} ended with exit({end.code!r})"
    except KeyboardInterrupt:
        stopped = f"{script} was interrupted"
    except BaseException as error:
        stopped = _raised(script, error)
    else:
        stopped = ""
    if process != os.getpid():  # a child that the script forked: the report is the parent's to print
        sys.stdout.flush()
        os._exit(1 if stopped else 0)
    return stopped


def run_program(script: Path, arguments: list[str]) -> int:
    """Runs `script` as `run_script` does, and returns the exit code that Python would end with; an exception is printed
    as Python prints it, from the script's own lines on. Raises UsageError for a file that is no Python program."""
    code = checked(script, script.resolve())
    process = os.getpid()
    try:
        with _as_main(script, arguments) as module:
            exec(code, module.__dict__)
    except SystemExit as end:
        if isinstance(end.code, int):
            ended = end.code
        else:
            ended = 0 if end.code is None else 1
            if end.code is not None:
                sys.stderr.write(f"{end.code}\n")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        sys.stdout.flush()
        traceback.print_exception(error.with_traceback(_of_the_script(error, code)))
        ended = 1
    else:
        ended = 0
    if process != os.getpid():  # a child that the script forked
        sys.stdout.flush()
        os._exit(ended)
    return ended


@contextmanager
def _as_main(script: Path, arguments: list[str]) -> Iterator[ModuleType]:
    """The module that the script is run in: `__main__`, with its arguments in sys.argv and its folder in sys.path."""
    path = script.resolve()
    linecache.checkcache()  # what another run in this process read of its source may have changed
    module = ModuleType("__main__")
    module.__file__ = str(path)
    module.__dict__["__builtins__"] = __builtins__
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(path.parent))
    ours = sys.modules["__main__"]
    sys.modules["__main__"] = module  # where pickle and multiprocessing look for what the script defines
    try:
        yield module
    finally:
        sys.modules["__main__"] = ours


def _of_the_script(error: BaseException, code: CodeType) -> TracebackType | None:
    """The traceback from the script's first line on. An error with a note about its place is the program's, whichever
    of truecast's lines found it: for such a one it ends where PyTorch came to truecast."""
    chain: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        chain.append(trace)
        trace = trace.tb_next
    first = next((i for i, t in enumerate(chain) if t.tb_frame.f_code is code), 0)
    files = [t.tb_frame.f_code.co_filename for t in chain]
    end = len(chain)
    if getattr(error, "__notes__", None):
        theirs = max((i for i, file in enumerate(files) if not is_framework_file(file)), default=first)
        end = next((i for i in range(theirs + 1, end) if is_own_file(files[i])), end)
    found: TracebackType | None = None
    for t in reversed(chain[first:end]):
        found = TracebackType(found, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return found


def checked(script: Path, path: Path | None = None) -> CodeType:
    """The script, compiled under the file name `path`.

    Raises UsageError for a script that is missing, can't be read, or does not parse.
    """
    if not os.path.isfile(script):  # of a path, is_file raises for a name that is too long
        raise UsageError("there is no such script", where=script)
    try:
        text = script.read_bytes()
    except OSError as error:
        raise UsageError("the script can't be read", where=script, why=error.strerror or str(error)) from error
    try:
        _require_readable(text)
        return compile(text, str(path or script), "exec", dont_inherit=True)
    except UnicodeDecodeError as error:
        line, byte = text.count(b"\n", 0, error.start) + 1, text[error.start]
        raise UsageError(
            "the script is not valid Python",
            where=f"{script}:{line}",
            values=f"SyntaxError: byte 0x{byte:02x} is not {error.encoding}, and no other encoding is declared",
        ) from error
    except SyntaxError as error:
        where = f"{script}:{error.lineno}:{error.offset}" if error.lineno else str(script)
        raise UsageError("the script is not valid Python", where=where, values=f"SyntaxError: {error.msg}") from error
    except ValueError as error:  # a null byte
        raise UsageError("the script is not valid Python", where=script, values=str(error)) from error


def _require_readable(text: bytes) -> None:
    """Raises UnicodeDecodeError where the bytes are not in the encoding that they declare (`compile` lets comments be
    anything), SyntaxError where there is no such encoding."""
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(text).readline)[0]
    except SyntaxError:
        text.decode()  # the first two lines are looked at as UTF-8: say where they aren't
        raise
    text.decode(encoding)


def _raised(script: Path, error: BaseException) -> str:
    if isinstance(error, TruecastError):
        what = error.what.splitlines()[0]  # a worker process's comes with its traceback
        return f"{script} stopped{f' at {error.where}' if error.where is not None else ''}: {what}"
    first = str(error).splitlines()[0] if str(error) else ""
    at = _last_line(error.__traceback__)
    where = f" at {at}" if at else ""
    return f"{script} raised {type(error).__name__}{where}{f': {first}' if first else ''}"


def _last_line(trace: TracebackType | None) -> str:
    """The innermost line of the program's own that an exception came through: "train.py:12"."""
    found = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not is_framework_file(file):
            found = f"{os.path.basename(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found

"""Runs a script as `python SCRIPT ARGS` would, and says in one line why it did not run to its end.

Imports the leaves only.
"""

from __future__ import annotations

import io
import linecache
import os
import sys
import tokenize
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from truecast.errors import TruecastError, UsageError
from truecast.sites import is_framework_file


def run_script(script: Path, arguments: list[str]) -> str:
    """Runs `script` with __name__ = "__main__" in this process. Returns "" where it ran to its end or ended with exit
    code 0; else what stopped it. Raises UsageError for a file that is no Python program."""
    path = script.resolve()
    code = checked(script, path)
    linecache.checkcache()  # what another run in this process read of its source may have changed
    module = ModuleType("__main__")
    module.__file__ = str(path)
    module.__dict__["__builtins__"] = __builtins__
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(path.parent))
    process, ours = os.getpid(), sys.modules["__main__"]
    sys.modules["__main__"] = module  # where pickle and multiprocessing look for what the script defines
    try:
        exec(code, module.__dict__)
    except SystemExit as end:
        stopped = "" if end.code in (None, 0) else f"{script} ended with exit({end.code!r})"
    except KeyboardInterrupt:
        stopped = f"{script} was interrupted"
    except BaseException as error:
        stopped = _raised(script, error)
    else:
        stopped = ""
    finally:
        sys.modules["__main__"] = ours
    if process != os.getpid():  # a child that the script forked: the report is the parent's to print
        sys.stdout.flush()
        os._exit(1 if stopped else 0)
    return stopped


def checked(script: Path, path: Path | None = None) -> CodeType:
    """The script, compiled under the file name `path`.

    Raises UsageError for a script that is missing, can't be read, or does not parse.
    """
    if not script.is_file():
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

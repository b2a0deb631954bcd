"""The `truecast` command: reads arguments, calls the stages, prints, and turns errors into exit codes.

Exit codes: 0 fine, 1 findings, 2 wrong use or a broken input (one line on stderr, no traceback), 70 a fault of
truecast's own. Nothing heavy is imported before a command runs, so that `truecast --help` answers at once.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from truecast.cli_explain import explain
from truecast.cli_fix import fix
from truecast.errors import TruecastError, UsageError
from truecast.files import appearing

FINDINGS, WRONG_USE, OUR_FAULT = 1, 2, 70

app = typer.Typer(
    name="truecast",
    help="PyTorch on XLA with numerics that are declared, visible and proven.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
numerics_app = typer.Typer(
    help="The policies that say in which precision each operation is computed.", no_args_is_help=True
)
app.add_typer(numerics_app, name="numerics")

NumericsOption = Annotated[
    str | None, typer.Option("--numerics", "-n", metavar="NAME", help="A preset's name or a TOML file's path.")
]


@app.callback()
def _options(
    trace: Annotated[bool, typer.Option("--traceback", help="Show where in the code an error was raised.")] = False,
) -> None:
    global _show_traceback
    _show_traceback = trace


_show_traceback = False


@app.command()
def lower(
    target_program: Annotated[str, typer.Argument(metavar="SCRIPT:FUNCTION", help="A file, and what to call in it.")],
    numerics: NumericsOption = None,
    target: Annotated[str | None, typer.Option(help="cpu, cuda, tpu or neuron; none of them needs to be here.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="F", help="Write to a file.")] = None,
    optimized: Annotated[bool, typer.Option("--optimized", help="The HLO after XLA's optimizations.")] = False,
    locations: Annotated[bool, typer.Option("--locations", help="Name each instruction's node.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="The decisions instead of the instructions.")] = False,
    save: Annotated[Path | None, typer.Option(metavar="F", help="Save the program, for truecast.load.")] = None,
) -> None:
    """Print a program's StableHLO.

    SCRIPT is run with __name__ = "__truecast__". FUNCTION is called with the script's `example_inputs`: a tuple
    of arguments, a dict of keyword arguments, or a function that returns one of them; without it, with none.
    """
    from truecast import api

    forms = {"--optimized": optimized, "--locations": locations, "--plan": plan}
    if len(asked := [option for option, given in forms.items() if given]) > 1:
        raise UsageError(f"{' and '.join(asked)} print different things", help="ask for one of them at a time")
    path, name = _split(target_program)
    function, args, kwargs = _load_target(path, name)
    with _their_errors(path, f"{name} in {path} can't be lowered"):
        program = api.lower(function, *args, numerics=numerics, target=target, **kwargs)
    if save is not None:
        program.save(save)
        if output is None and not (optimized or locations or plan):
            typer.echo(f"saved {program!r} to {save}", err=True)
            return
    if plan:
        text = program.plan.text(_width())
    elif optimized:
        text = program.optimized_hlo
    else:
        text = program.stablehlo_with_locations if locations else program.stablehlo
    write(text, output)


# What the command does not know is the script's; "--" ends the command's own options.
_SCRIPT = {"allow_extra_args": True, "ignore_unknown_options": True}
app.command(context_settings=_SCRIPT)(explain)
app.command(context_settings=_SCRIPT)(fix)


@numerics_app.command("list")
def numerics_list() -> None:
    """The presets, one a line."""
    from truecast.numerics.policy_text import preset, preset_names

    names = preset_names()
    width = max(map(len, names))
    for name in names:
        typer.echo(_fit(f"{name:{width}}  {preset(name).note}"))


@numerics_app.command("show")
def numerics_show(name: Annotated[str, typer.Argument(metavar="NAME", help="A preset's name or a path.")]) -> None:
    """A policy as TOML, each rule with its source."""
    from truecast.numerics.scope import policy

    typer.echo(str(policy(name)))


@numerics_app.command("diff")
def numerics_diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A preset's name, a path, or a device type of autocast.")],
    b: Annotated[str, typer.Argument(metavar="B")],
) -> None:
    """Where two policies differ: settings, rules and autocast lists.

    With a name that only autocast knows, such as xla, the autocast lists of both are compared.
    """
    from truecast.numerics import autocast
    from truecast.numerics.policy_diff import policy_diff
    from truecast.numerics.policy_text import preset_names
    from truecast.numerics.scope import policy

    only_autocast = [name for name in (a, b) if name in autocast.LISTS and name not in preset_names()]
    if not only_autocast:
        typer.echo(policy_diff(policy(a), policy(b)))
        return
    lists = [name if name in autocast.LISTS else policy(name).autocast for name in (a, b)]
    typer.echo(autocast.diff_text(*lists))


@app.command()
def doctor() -> None:
    """Versions, devices, the cache; what is missing and how to get it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from truecast.runtime.doctor import examine

    marks = {"ok": Text("ok", "green"), "absent": Text("absent", "yellow"), "wrong": Text("wrong", "bold red")}
    table = Table.grid(padding=(0, 2))
    checks = list(examine())
    for check in checks:
        detail = Text(check.detail)
        if check.help:
            detail.append(f"\n{check.help}", "dim")
        table.add_row(marks[check.state], Text(check.subject), detail)
    Console(highlight=False, soft_wrap=False).print(table)
    if any(check.state == "wrong" for check in checks):
        raise typer.Exit(FINDINGS)


def _split(named: str) -> tuple[Path, str]:
    """SCRIPT:FUNCTION as a path and a name."""
    script, separator, name = named.rpartition(":")
    if not separator or not script or not name:
        raise UsageError(f"{named!r} does not name a function", help="SCRIPT:FUNCTION, for example train.py:step")
    if not Path(script).is_file():
        raise UsageError("there is no such script", where=script)
    return Path(script), name


def _load_target(path: Path, name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What `name` is in the script, and the arguments the script has for it."""
    module = _run_script(path)
    if name not in module:
        defined = [n for n, value in module.items() if callable(value) and not n.startswith("_")]
        raise UsageError(f"{path} has no {name!r}", help=f"it has {', '.join(defined) or 'nothing to call'}")
    if not callable(module[name]):
        raise UsageError(f"{name!r} in {path} can't be called", values=f"it is a {type(module[name]).__name__}")
    example = module.get("example_inputs", ())
    if callable(example):
        with _their_errors(path, f"example_inputs in {path} can't be made"):
            example = example()
    if not isinstance(example, tuple | dict):
        raise UsageError(
            f"example_inputs in {path} is a {type(example).__name__}",
            help="a tuple of arguments, a dict of keyword arguments, or a function that returns one of them",
        )
    args, kwargs = ((), example) if isinstance(example, dict) else (example, {})
    _require_fitting(path, name, module[name], args, kwargs)
    return module[name], args, kwargs


def _require_fitting(path: Path, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[Any, Any]) -> None:
    """Raises UsageError where the function does not take the example inputs."""
    try:
        signature = inspect.signature(function if inspect.isclass(function) else getattr(function, "forward", function))
    except (TypeError, ValueError):  # a builtin without a signature: the call will tell
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"{name} in {path} can't be called with its example_inputs",
            values=str(error),
            help=f"give {path} example_inputs: a tuple of arguments, or a dict of keyword arguments, for {name}",
        ) from error


def _run_script(path: Path) -> dict[str, Any]:
    """The script's names. Its folder comes first in sys.path, as `python SCRIPT` has it."""
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv = [str(path)]
    with _their_errors(path, f"{path} can't be run"):
        try:
            return runpy.run_path(str(path), run_name="__truecast__")
        except SystemExit as error:
            raise UsageError(f"{path} ended before anything could be called", values=f"exit({error.code})") from error


@contextlib.contextmanager
def _their_errors(path: Path, what: str) -> Iterator[None]:
    """Turns an exception that came through the script's own lines into a UsageError that names the last of them."""
    try:
        yield
    except (TruecastError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        raise UsageError(
            what, where=_place(error, path), values=f"exit({error.code})", why="the script ended the process"
        ) from error
    except BaseException as error:  # the script may raise what is no Exception
        place = _place(error, path)
        if place is None:
            raise
        raise UsageError(what, where=place, values=f"{type(error).__name__}: {error}") from error


def _place(error: BaseException, path: Path) -> str | None:
    """The script's own line that an exception came through last; None if it came through none.

    The script itself where Python can't read it (null bytes have no line), and where an operation that a library
    called refuses its operands: the recorder notes on such an error that it is the program's.
    """
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}:{error.offset}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    if lines:
        return f"{path}:{lines[-1]}"
    unreadable = isinstance(error, SyntaxError) and error.filename is None
    return str(path) if unreadable or getattr(error, "__notes__", None) else None


def write(text: str, output: Path | None) -> None:
    """To stdout, or to a file that appears whole or not at all."""
    try:
        if output is None:
            typer.echo(text)
            return
        with appearing(output) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(
            "can't write the output", where=output or "standard output", why=error.strerror or str(error)
        ) from error


def _width() -> int:
    """The terminal's width; 0, which means unlimited, where the output is no terminal."""
    return os.get_terminal_size().columns if sys.stdout.isatty() else 0


def _fit(line: str) -> str:
    width = _width()
    return line if not width or len(line) <= width else line[: width - 1] + "…"


def _one_line(error: TruecastError) -> str:
    where = f" ({error.where})" if error.where is not None else ""
    rest = "".join(f"; {label}: {text}" for label in ("values", "why", "help") if (text := getattr(error, label)))
    return " ".join(f"{error.what}{where}{rest}".split())


def main() -> None:
    """The entry point: runs the command and exits with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of `truecast ARGUMENTS`; prints what it has to say."""
    try:
        return app(arguments, prog_name="truecast", standalone_mode=False) or 0
    except TyperException as error:
        return _fail(error.format_message(), error.exit_code, error)
    except TruecastError as error:
        return _fail(_one_line(error), WRONG_USE, error)
    except BrokenPipeError:  # `truecast lower ... | head`: the reader had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:
        message = f"a fault of truecast's own: {type(error).__name__}: {error}; truecast --traceback shows where"
        return _fail(" ".join(message.split()), OUR_FAULT, error)


def _fail(message: str, code: int, error: BaseException) -> int:
    if _show_traceback:
        traceback.print_exception(error)
    if message:  # the help that is shown without arguments says it all
        typer.echo(f"truecast: {message}", err=True)
    return code

"""The `truecast` command: reads arguments, calls the stages, prints, and turns errors into exit codes.

Exit codes: 0 fine, 1 findings, 2 wrong use or a broken input (one line on stderr, no traceback), 70 a fault of
truecast's own. Nothing heavy is imported before a command runs, so that `truecast --help` answers at once.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer
from typer.exceptions import TyperException

from truecast.cli.audit import audit
from truecast.cli.bisect import bisect
from truecast.cli.compare import compare
from truecast.cli.doctor import doctor
from truecast.cli.explain import explain
from truecast.cli.fix import fix
from truecast.cli.gate import gate
from truecast.cli.lower import lower
from truecast.cli.numerics import numerics
from truecast.cli.run import run as run_a_script
from truecast.errors import TruecastError

WRONG_USE, OUR_FAULT = 2, 70

app = typer.Typer(
    name="truecast",
    help="PyTorch on XLA with numerics that are declared, visible and proven.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _options(
    trace: Annotated[bool, typer.Option("--traceback", help="Show where in the code an error was raised.")] = False,
) -> None:
    global _show_traceback
    _show_traceback = trace


_show_traceback = False


# What the command does not know is the script's; "--" ends the command's own options.
_SCRIPT = {"allow_extra_args": True, "ignore_unknown_options": True}
app.command("run", context_settings=_SCRIPT)(run_a_script)
app.command(context_settings=_SCRIPT)(explain)
app.command(context_settings=_SCRIPT)(fix)
app.command()(lower)
app.command()(audit)
app.command()(bisect)
app.command()(gate)
app.command()(compare)
app.add_typer(numerics, name="numerics")
app.command()(doctor)


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

"""`truecast audit FILE|SCRIPT:FUNCTION`: what a lowered program does with precision, or what two do differently.

Exit codes: 0, 1 if --fail-on names something that was found, 2 for a text that is none. Lines that can't be read are
reported and don't end the command.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from truecast.cli.output import colored, width, write
from truecast.cli.target import NumericsOption, load, split, their_errors
from truecast.errors import UsageError

# What --fail-on means, as a figure of the audit; "difference" is about two.
_FIGURES = {
    "float64": "float64",
    "nobody": "converts.nobody",
    "removed": "casts.removed",
    "sums": "accumulations.16bit",
    "unread": "lines.unread",
}


def audit(
    program: Annotated[str, typer.Argument(metavar="FILE|SCRIPT:FUNCTION", help="HLO or StableHLO, or what to call.")],
    numerics: NumericsOption = None,
    target: Annotated[str | None, typer.Option(help="cpu, cuda, tpu or neuron; none of them needs to be here.")] = None,
    optimized: Annotated[bool, typer.Option("--optimized", help="After XLA's optimizations.")] = False,
    against: Annotated[
        str | None, typer.Option(metavar="B", help="What B does otherwise: a FILE or a SCRIPT:FUNCTION.")
    ] = None,
    against_numerics: Annotated[
        str | None, typer.Option(metavar="NAME", help="What the program does otherwise under this policy.")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="F", help="Write the audit as JSON.")] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="F", help="Write the audit as a page.")] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT", help="float64, nobody, removed, sums, unread or difference: exit code 1."),
    ] = None,
) -> None:
    """Every convert, and every product and sum in reduced precision, by operation and source line."""
    failing = set(fail_on or ())
    compares = against is not None or against_numerics is not None
    if unknown := failing - {*_FIGURES, "difference"}:
        raise UsageError(
            f"--fail-on does not know {min(unknown)!r}", help=f"one of {', '.join((*_FIGURES, 'difference'))}"
        )
    if "difference" in failing and not compares:
        raise UsageError("--fail-on difference needs a second program", help="--against B, or --against-numerics NAME")
    scripts = [named for named in (program, against) if named is not None and not _is_lowered(named)]
    if not scripts and (numerics or against_numerics or target or optimized):
        raise UsageError(
            f"{program} is lowered already",
            why="--numerics, --target and --optimized say how a program is lowered",
            help="leave them out, or give SCRIPT:FUNCTION",
        )
    first = _program(program, target, optimized)
    report: Any = first(numerics)
    counts = report.counts()
    if compares:
        second = first if against is None else _program(against, target, optimized)
        report = report.diff(second(against_numerics or numerics))
        counts = report.difference.after.counts()
    found = {name for name, figure in _FIGURES.items() if counts[figure]}
    found |= {"difference"} if compares and report.changes else set()
    typer.echo(report.render(width(), colored()))
    if json is not None:
        write(report.to_json(), json)
    if html is not None:
        write(report.to_html(), html)
    if failing & found:
        raise typer.Exit(1)


def _is_lowered(named: str) -> bool:
    """Whether a file is meant, or a pipe. Raises UsageError for what is neither that nor a SCRIPT:FUNCTION."""
    is_script, is_there = named.endswith(".py"), os.path.exists(named)
    if is_there and not is_script and not os.path.isdir(named):
        return True
    if is_there or is_script or ":" not in named:
        is_file = os.path.isfile(named)
        what = "this is a directory" if os.path.isdir(named) else "there is no such file"
        raise UsageError(
            f"{named!r} does not name a function" if is_file else what,
            where=None if is_file else named,
            help="a file with HLO or StableHLO, or SCRIPT:FUNCTION, for example train.py:step",
        )
    return False


def _program(named: str, target: str | None, optimized: bool) -> Callable[[str | None], Any]:
    """What makes the audit of FILE or SCRIPT:FUNCTION under a policy; a script is run once."""
    from truecast.api.auditing import audit as audited

    if _is_lowered(named):
        return lambda numerics: audited(Path(named))
    from truecast.api import programs

    script, name = split(named)
    function, args, kwargs = load(script, name)

    def of_script(numerics: str | None) -> Any:
        with their_errors(script, f"{name} in {script} can't be lowered"):
            lowered = programs.lower(function, *args, numerics=numerics, target=target, **kwargs)
        return audited(lowered, optimized=optimized)

    return of_script

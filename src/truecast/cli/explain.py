"""`truecast explain SCRIPT [ARGS]`: runs a script while it is recorded, and prints what was found.

Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 the script is missing, broken, or did not run to its end
(what was found until then is printed all the same).
"""

from __future__ import annotations

import importlib.resources
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from truecast.cli.output import colored, width, write
from truecast.cli.progress import ProgressLine
from truecast.errors import UsageError
from truecast.numerics import scope

FailOn = Literal["info", "warning", "error", "never"]
Downcast = Literal["xla-use-bf16", "xla-downcast-bf16"]


def explain(
    context: typer.Context,
    script: Annotated[Path | None, typer.Argument(metavar="SCRIPT", help="The script and its arguments.")] = None,
    fake: Annotated[bool, typer.Option("--fake", help="Fake tensors: no memory, no data, any size.")] = False,
    json: Annotated[Path | None, typer.Option("--json", metavar="F", help="Write the report as JSON.")] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", metavar="F", help="Write the report as SARIF.")] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="F", help="Write the report as an HTML page.")] = None,
    baseline: Annotated[Path | None, typer.Option(metavar="F", help="Leave out the findings that F knows.")] = None,
    write_baseline: Annotated[Path | None, typer.Option(metavar="F", help="Write what was found as known.")] = None,
    fail_on: Annotated[FailOn, typer.Option(help="The least severity that makes the exit code 1.")] = "error",
    select: Annotated[list[str] | None, typer.Option(metavar="CODE", help="Only codes that begin so.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="CODE", help="All but codes that begin so.")] = None,
    migrate: Annotated[
        Downcast | None, typer.Option(help="What the program computes beside what it computed under XLA_USE_BF16=1.")
    ] = None,
    numerics: Annotated[str | None, typer.Option(metavar="NAME", help="The policy to explain under.")] = None,
    code: Annotated[str | None, typer.Option(metavar="CODE", help="Print the page of one finding.")] = None,
) -> None:
    """Where every dtype comes from, and what will break because of it."""
    if code is not None:
        typer.echo(page(code))
        return
    if script is None:
        raise UsageError("a script or --code is needed", help="truecast explain train.py")
    for chosen in (*(select or ()), *(ignore or ())):
        known(chosen)
    from truecast.scripts import checked, run_script

    policy = scope.chosen(numerics)
    checked(script)  # before anything heavy is imported
    from truecast.api.explaining import recording
    from truecast.compat.install import offered

    with offered("cpu"), recording(fake=fake) as tape, ProgressLine(lambda: tape.operations):
        stopped = run_script(script, list(context.args))
        report = tape.explain(stopped, numerics=policy, migrate=migrate or "").only(select or (), ignore or ())
    if write_baseline is not None:
        write(report.to_baseline(), write_baseline)
    if baseline is not None:
        report = report.beyond(baseline)
    sys.stdout.flush()
    typer.echo(report.render(width(), colored()))
    if json is not None:
        write(report.to_json(), json)
    if html is not None:
        write(report.to_html(f"truecast explain {script}"), html)
    if sarif is not None:
        write(report.to_sarif(), sarif)
    if stopped:
        raise UsageError(stopped)
    if fail_on != "never" and report.at_least(fail_on):
        raise typer.Exit(1)


def codes() -> list[str]:
    """The codes that have a page."""
    folder = importlib.resources.files("truecast.diagnose") / "codes"
    return sorted(entry.name.removesuffix(".md") for entry in folder.iterdir() if entry.name.endswith(".md"))


def page(code: str) -> str:
    """The page of a finding's code. Raises UsageError for an unknown code."""
    if code not in codes():
        raise UsageError(f"there is no finding {code!r}", values=f"there are {', '.join(codes())}")
    return (importlib.resources.files("truecast.diagnose") / "codes" / f"{code}.md").read_text("utf-8").rstrip("\n")


def known(prefix: str) -> None:
    """Raises UsageError for the beginning of no code."""
    if not any(code.startswith(prefix) for code in codes()):
        raise UsageError(f"no code begins with {prefix!r}", values=f"there are {', '.join(codes())}")

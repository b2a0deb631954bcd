"""`truecast bisect SCRIPT:FUNCTION`: which decisions of a policy make a program worse, by rule, operation and line.

Exit codes: 0 no regression, 1 a regression, or no certain answer, 2 wrong use or a broken script.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from truecast.cli.output import write
from truecast.cli.target import callable_named, called, run_script, split, their_errors
from truecast.errors import UsageError


def bisect(
    target_program: Annotated[str, typer.Argument(metavar="SCRIPT:FUNCTION", help="A file, and what to call in it.")],
    good: Annotated[str, typer.Option(metavar="NAME", help="The right policy: a preset or a TOML file.")] = "cpu",
    bad: Annotated[str, typer.Option(metavar="NAME", help="The policy that is worse.")] = "neuron",
    metric: Annotated[
        str, typer.Option(help="max_rel, kl, loss, top1, or a function of the script: (result, good result) -> number.")
    ] = "max_rel",
    bound: Annotated[
        float | None, typer.Option(metavar="X", help="Above it there is a regression; a tenth of the difference.")
    ] = None,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The smallest set to promote so that the value comes under the bound.")
    ] = False,
    finest: Annotated[Literal["rule", "op", "line", "module"], typer.Option(help="How far to look.")] = "line",
    rounding: Annotated[
        Literal["op", "region", "compiler"], typer.Option(help="For roundings that a policy leaves to the compiler.")
    ] = "region",
    seed: Annotated[int | None, typer.Option(help="For a program that draws random numbers.")] = None,
    budget: Annotated[str | None, typer.Option(metavar="SECONDS|RUNS", help="90s, 5m or 40runs.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="F", help="Keep what is measured in F; go on there.")] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="F", help="Write the result as JSON.")] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="F", help="With --reverse: write the promoting policy.")
    ] = None,
) -> None:
    """Which decisions of a policy make a program worse, by rule, operation and source line.

    FUNCTION is called with the script's `example_inputs`. The script should seed its weights and inputs.
    """
    from truecast.api import bisecting
    from truecast.diagnose.bisect.metrics import METRICS

    if policy is not None and not reverse:
        raise UsageError("--policy writes what --reverse finds", help="add --reverse")
    path, name = split(target_program)
    module = run_script(path)
    function, args, kwargs = called(path, module, name)
    measure = metric if metric in METRICS else None
    if measure is None and metric not in module:
        raise UsageError(
            f"there is no metric {metric!r}", help=f"one of {', '.join(METRICS)}, or a function that {path} defines"
        )
    with their_errors(path, f"{name} in {path} can't be bisected"):
        report = bisecting.bisect(
            function,
            *args,
            good=good,
            bad=bad,
            metric=measure or callable_named(path, module, metric),
            bound=bound,
            reverse=reverse,
            finest=finest,
            rounding=rounding,
            seed=seed,
            budget=budget,
            resume=resume,
            progress=_shown if sys.stderr.isatty() else None,
            **kwargs,
        )
    if sys.stderr.isatty():
        typer.echo("\r\x1b[K", nl=False, err=True)
    typer.echo(report.render(), nl=False)
    if json is not None:
        write(report.to_json().rstrip("\n"), json)
    if policy is not None and report.numerics is not None:
        write(report.numerics.to_toml().rstrip("\n"), policy)
    found = report.bisection
    if found.regressed or found.uncertain or not found.finished:
        raise typer.Exit(1)


def _shown(runs: int, value: float) -> None:
    """One line that each evaluation overwrites: a search may take minutes."""
    typer.echo(f"\r\x1b[Krun {runs}: {value:.4g}", nl=False, err=True)

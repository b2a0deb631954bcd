"""`truecast gate SCRIPT:FUNCTION`: holds a program to its baseline, in continuous integration.

Exit codes: 0 no worse than the baseline, 1 worse, 2 wrong use, a broken script, or a baseline that can't be used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truecast.cli.target import NumericsOption, load, split, their_errors


def gate(
    target_program: Annotated[str, typer.Argument(metavar="SCRIPT:FUNCTION", help="A file, and what to call in it.")],
    numerics: NumericsOption = None,
    baseline: Annotated[Path, typer.Option(metavar="F", help="The baseline.")] = Path("truecast-gate.toml"),
    update: Annotated[bool, typer.Option("--update", help="Write the baseline instead of comparing with it.")] = False,
    reference: Annotated[
        str, typer.Option(metavar="NAME", help="What the error is measured against: float64, a preset, or none.")
    ] = "float64",
    slack: Annotated[float, typer.Option(metavar="X", help="By which share the error may grow.")] = 0.1,
) -> None:
    """Fail where a program converts more, sums or computes narrower, or errs more than its baseline says.

    FUNCTION is called with the script's `example_inputs`. The script should seed its weights and inputs.
    """
    from truecast.api import gating
    from truecast.report import gate as words

    path, name = split(target_program)
    function, args, kwargs = load(path, name)
    with their_errors(path, f"{name} in {path} can't be measured"):
        figures = gating.measure(function, *args, numerics=numerics, reference=reference, **kwargs)
    if update:
        gating.update(baseline, figures)
        typer.echo(f"wrote {baseline}: {len(figures.lines)} lines of {name!r} under {figures.numerics}", err=True)
        return
    verdict = gating.check(baseline, figures, slack)
    typer.echo(words.render(verdict, baseline.name), nl=False)
    if verdict.worse:
        raise typer.Exit(1)

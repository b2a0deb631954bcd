"""`truecast compare SCRIPT:FUNCTION --a cpu --b neuron`: what a change of policy does to a program's values.

Exit codes: 0 no bound is broken, 1 one is, 2 wrong use or a broken script.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from truecast.cli.output import colored, width, write
from truecast.cli.target import load, split, their_errors
from truecast.errors import UsageError

Rounding = Literal["region", "op"]
Table = Literal["module", "op", "value", "decision", "step"]


def compare(
    target_program: Annotated[str, typer.Argument(metavar="SCRIPT:FUNCTION", help="A file, and what to call in it.")],
    a: Annotated[str, typer.Option("--a", metavar="NAME", help="A preset's name or a TOML file's path.")] = "cpu",
    b: Annotated[str, typer.Option("--b", metavar="NAME", help="The policy whose drift is judged.")] = "neuron",
    reference: Annotated[str, typer.Option(metavar="NAME", help="float64, or a policy.")] = "float64",
    steps: Annotated[int, typer.Option(metavar="N", help="Training steps, each fed what the last one wrote.")] = 0,
    compiler_rounding: Annotated[Rounding, typer.Option(help="How rounding left to a compiler is done.")] = "region",
    by: Annotated[Table | None, typer.Option(help="Print this table alone, whole.")] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="F", help="Write the numbers as JSON.")] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="F", help="Write a page with a picture.")] = None,
    png: Annotated[Path | None, typer.Option("--png", metavar="F", help="Write the picture; needs matplotlib.")] = None,
    max_result_ratio: Annotated[
        float | None, typer.Option(metavar="X", help="Fail if a result's error under B is over X times the honest one.")
    ] = None,
    max_ratio: Annotated[float | None, typer.Option(metavar="X", help="Likewise for any value.")] = None,
    max_flips: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Fail if more of a discrete decision differs between A and B.")
    ] = None,
    max_parameters: Annotated[
        float | None, typer.Option(metavar="X", help="Fail if the parameters end further off than X of their way.")
    ] = None,
) -> None:
    """Compare a program's values under two policies with float64, and with what honest rounding costs.

    SCRIPT is run with __name__ = "__truecast__". FUNCTION is called with the script's `example_inputs`. Everything is
    computed on this machine's CPU, whatever the policies' targets.
    """
    if steps < 0:
        raise UsageError(f"{steps} steps can't be taken")
    if by == "step" and not steps:
        raise UsageError("there are no training steps to print", help="say how many to take: --steps 10")
    path, name = split(target_program)
    function, args, kwargs = load(path, name)
    from truecast.api.comparing import compare as run

    with their_errors(path, f"{name} in {path} can't be compared"):
        drift = run(
            function,
            *args,
            a=a,
            b=b,
            reference=reference,
            steps=steps,
            compiler_rounding=compiler_rounding,
            **kwargs,
        )
    typer.echo(drift.table(by, width()) if by is not None else drift.render(width(), colored()))
    for form, output in ((drift.to_json, json), (drift.to_html, html)):
        if output is not None:
            write(form(), output)
    if png is not None:
        drift.write_png(png)
    breaches = drift.gate(result_ratio=max_result_ratio, ratio=max_ratio, flips=max_flips, parameters=max_parameters)
    bounded = any(bound is not None for bound in (max_result_ratio, max_ratio, max_flips, max_parameters))
    if bounded and breaches:
        typer.echo("\n" + "\n".join(map(str, breaches)))
        raise typer.Exit(1)

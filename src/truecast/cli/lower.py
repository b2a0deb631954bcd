"""`truecast lower SCRIPT:FUNCTION`: a program's StableHLO, its optimized HLO or its Plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truecast.cli.output import width, write
from truecast.cli.target import NumericsOption, load, split, their_errors
from truecast.errors import UsageError


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
    from truecast.api import programs

    forms = {"--optimized": optimized, "--locations": locations, "--plan": plan}
    if len(asked := [option for option, given in forms.items() if given]) > 1:
        raise UsageError(f"{' and '.join(asked)} print different things", help="ask for one of them at a time")
    path, name = split(target_program)
    function, args, kwargs = load(path, name)
    with their_errors(path, f"{name} in {path} can't be lowered"):
        program = programs.lower(function, *args, numerics=numerics, target=target, **kwargs)
    if save is not None:
        program.save(save)
        if output is None and not (optimized or locations or plan):
            typer.echo(f"saved {program!r} to {save}", err=True)
            return
    if plan:
        text = program.plan.text(width())
    elif optimized:
        text = program.optimized_hlo
    else:
        text = program.stablehlo_with_locations if locations else program.stablehlo
    write(text, output)

"""`truecast numerics list|show|diff`: the policies that truecast knows."""

from __future__ import annotations

from typing import Annotated

import typer

from truecast.cli.output import fit

numerics = typer.Typer(
    help="The policies that say in which precision each operation is computed.", no_args_is_help=True
)


@numerics.command("list")
def list_() -> None:
    """The presets, one a line."""
    from truecast.numerics.policy_text import preset, preset_names

    names = preset_names()
    width = max(map(len, names))
    for name in names:
        typer.echo(fit(f"{name:{width}}  {preset(name).note}"))


@numerics.command("show")
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="A preset's name or a path.")]) -> None:
    """A policy as TOML, each rule with its source."""
    from truecast.numerics.scope import policy

    typer.echo(str(policy(name)))


@numerics.command("diff")
def diff(
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

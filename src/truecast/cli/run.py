"""`truecast run SCRIPT [ARGS]`: runs a script with the `pjrt` device at hand; one for torch_xla without torch_xla.

Exit codes: the script's own, 1 where it raised, as with Python; 2 for a script that is missing or no Python program,
and for an unknown policy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truecast.cli.target import NumericsOption


def run(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="The script and its arguments.")],
    numerics: NumericsOption = None,
    shim: Annotated[bool, typer.Option("--shim", help="Also where torch_xla is installed.")] = False,
) -> None:
    """Run a script; `device="pjrt"` works in it, and `import torch_xla` without torch_xla.

    The policy is --numerics', else the environment's (`truecast doctor` shows it).
    """
    from truecast.scripts import checked, run_program

    checked(script)  # before anything heavy is imported
    from truecast.api.device import device
    from truecast.compat.install import offered
    from truecast.numerics.scope import policy, set_numerics

    policy(numerics)  # one that can't be read is reported before the script starts
    device()
    set_numerics(numerics)  # not a `with` block's: the script's threads are to have it too
    try:
        with offered(instead=shim):
            code = run_program(script, list(context.args))
    finally:
        set_numerics(None)
    if code:
        raise typer.Exit(code)

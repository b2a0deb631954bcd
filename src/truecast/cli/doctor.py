"""`truecast doctor`: what truecast finds on this machine."""

from __future__ import annotations

import typer


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
        raise typer.Exit(1)

"""The `truecast` command, a file for each subcommand."""

from truecast.cli.app import main, run

__all__ = ["main", "run"]

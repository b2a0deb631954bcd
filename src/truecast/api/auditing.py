"""`audit`: what a program does with precision, whoever lowered it. It needs neither torch nor jax to read text."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from truecast.diagnose.audit.program import audited_program
from truecast.diagnose.audit.rows import audited
from truecast.diagnose.hlo import read_path, read_text
from truecast.errors import UsageError
from truecast.report.audit import AuditReport

if TYPE_CHECKING:
    from truecast.lowering.program import Program


def audit(program: Program | str | PathLike[str], *, optimized: bool = False) -> AuditReport:
    """Each convert, each product and sum in reduced precision, each float64 of a program, by operation and line.

    program: a Program, the text of HLO or StableHLO that anyone printed, or the path of a file that holds it.
    optimized: a Program as the target's compiler leaves it; the casts that it removed are among the rows.
    A line of foreign text that can't be read is in `problems`, with line and column, and the rest is audited.
    Raises UsageError for a text or file that is none, and TargetError for `optimized` without the target's device.
    """
    if isinstance(program, str) and "\n" in program:
        return AuditReport(audited(read_text(program), "the text"))
    if isinstance(program, str | PathLike):
        path = Path(program)
        return AuditReport(audited(read_path(path), path.name))
    if not hasattr(program, "stablehlo_with_locations"):
        raise UsageError(
            f"a {type(program).__name__} can't be audited",
            help="a Program (truecast.lower makes one), the text of HLO or StableHLO, or a file's path",
        )
    return AuditReport(audited_program(program, optimized))

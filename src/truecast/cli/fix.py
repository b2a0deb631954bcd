"""`truecast fix SCRIPT [ARGS]`: the casts that remove the errors that `explain` finds, as a diff; --write applies them.

--write runs the script again and keeps the change only if the findings it was made for are gone and no other error or
warning has come. Exit codes: 0 no errors (left), 1 errors to fix or left, 2 wrong use or a broken script.
"""

from __future__ import annotations

import json as json_module
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from truecast.cli.explain import known
from truecast.cli.progress import ProgressLine
from truecast.errors import UsageError


def fix(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="The script and its arguments.")],
    write: Annotated[bool, typer.Option("--write", help="Change the files, and run the script again.")] = False,
    fake: Annotated[bool, typer.Option("--fake", help="Fake tensors: no memory, no data, any size.")] = False,
    select: Annotated[list[str] | None, typer.Option(metavar="CODE", help="Only codes that begin so.")] = None,
) -> None:
    """The casts that remove a script's errors, as a diff."""
    for chosen in select or ():
        known(chosen)
    from truecast.scripts import checked

    checked(script)
    from truecast.diagnose.fix.files import fixes, hidden

    arguments, started, text = list(context.args), time.time_ns(), script.read_bytes()
    before = _explained(script, arguments, fake)
    findings = [f for f in before.findings if _wanted(f.severity, f.code, select or [])]
    files, left = fixes(findings, before.flow)
    for file in files:
        typer.echo(file.diff(), nl=False)
    for finding in left:
        site = finding.places[0].site
        typer.echo(f"not fixed: {finding.code} at {site}: {finding.help}", err=True)
    if not findings:
        typer.echo("nothing to fix", err=True)
        return
    if not write or not files:
        raise typer.Exit(1)
    _require_unchanged(files, started, {script.resolve(): text})
    _apply(files)
    old, behind = (
        Counter(f.code for f in found if f.severity != "info") for found in (before.findings, hidden(before.flow))
    )
    problem = "it was interrupted"
    try:
        after = _again(script, arguments, fake)
        problem = _problem(old, behind, after, files)
    finally:
        if problem:
            for file in files:
                file.path.write_bytes(file.before)
    if problem:
        raise UsageError("the files are as they were", why=problem, help="the diff above is what was tried")
    mended = sum(len(file.mends) for file in files)
    typer.echo(
        f"{mended} finding{'s' * (mended != 1)} fixed in {', '.join(str(f.path.name) for f in files)}; "
        "the script ran again, and nothing new was found",
        err=True,
    )
    seen = sorted((Counter(_codes(after)) - old).elements())
    if seen:
        typer.echo(f"what the errors hid is seen now: {', '.join(seen)}", err=True)
    if left:
        raise typer.Exit(1)


def _wanted(severity: str, code: str, select: list[str]) -> bool:
    return code.startswith(tuple(select)) if select else severity == "error"


def _explained(script: Path, arguments: list[str], fake: bool) -> Any:
    """The report on one run of the script in this process; what the script prints goes to stderr."""
    import contextlib

    from truecast.api.explaining import recording
    from truecast.compat.install import offered
    from truecast.scripts import run_script

    line = ProgressLine(lambda: tape.operations)
    with contextlib.redirect_stdout(sys.stderr), offered("cpu"), recording(fake=fake) as tape, line:
        stopped = run_script(script, arguments)
        report = tape.explain(stopped)
    if stopped:
        raise UsageError(stopped, help="a script is fixed by what it does from beginning to end")
    return report


def _require_unchanged(files: Any, started: int, known: dict[Path, bytes]) -> None:
    """Raises UsageError for a file written since the script began to run: what ran isn't what stands there."""
    for file in files:
        same = known.get(file.path.resolve(), file.before) == file.before
        if not same or file.path.stat().st_mtime_ns > started:
            raise UsageError("a file changed meanwhile: nothing is written", where=file.path)


def _apply(files: Any) -> None:
    for file in files:
        if file.path.read_bytes() != file.before:
            raise UsageError("a file changed meanwhile: nothing is written", where=file.path)
    for file in files:
        file.path.write_bytes(file.after)


def _again(script: Path, arguments: list[str], fake: bool) -> dict[str, Any]:
    """The report on the changed script, run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["explain", "--json", str(report), "--fail-on", "never", *(["--fake"] if fake else [])]
        command = [
            sys.executable,
            "-c",
            "from truecast.cli import main; main()",
            *options,
            str(script),
            "--",
            *arguments,
        ]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
        if done.returncode != 0:
            return {"stopped": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it did not run"}
        found: dict[str, Any] = json_module.loads(report.read_text("utf-8"))
        return found


def _problem(before: Counter[str], hidden: Counter[str], after: dict[str, Any], files: Any) -> str:
    """Why the change is not kept; "" if it is."""
    if "stopped" in after:
        return f"the changed script does not run to its end: {after['stopped']}"
    mended = Counter(finding.code for file in files for finding in file.mends)
    now = Counter(_codes(after))
    worse = sorted(code for code in now if now[code] > max(before[code], hidden[code]))
    if worse:
        return f"the changed script has findings that it did not have: {', '.join(worse)}"
    stayed = sorted(code for code in mended if now[code] > before[code] - mended[code])
    return f"the findings are still there: {', '.join(stayed)}" if stayed else ""


def _codes(report: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in report["findings"] if finding["severity"] != "info"]

"""A report as a person reads it: what, where, values, why, help, in that order, with carets under the expression."""

from __future__ import annotations

import os
import textwrap

from truecast.diagnose.finding import Edit, Finding, Place, Severity
from truecast.sites import Site

_MOST_PLACES = 3  # besides the symptom: one cause may show at every layer
_COLORS: dict[Severity, str] = {"error": "1;31", "warning": "1;33", "info": "1;36"}


def render(
    findings: tuple[Finding, ...],
    operations: int,
    stopped: str,
    width: int,
    color: bool,
    set_aside: int = 0,
    table: str = "",
) -> str:
    """Every finding, a table if there is one, then one line that counts the findings."""
    printer = _Printer(width, color)
    parts = [*(printer.finding(finding) for finding in findings), *([table] if table else [])]
    return "\n\n".join([*parts, summary(findings, operations, stopped, set_aside)])


def summary(findings: tuple[Finding, ...], operations: int, stopped: str, set_aside: int = 0) -> str:
    """ "1 error, 2 warnings in 812 operations"."""
    counts = [(sum(f.severity == s for f in findings), s) for s in ("error", "warning", "info")]
    named = [f"{n} {s}{'s' * (n != 1 and s != 'info')}" for n, s in counts if n]
    line = f"{', '.join(named) or 'nothing found'} in {operations} operation{'s' * (operations != 1)}"
    line += f", {set_aside} set aside" if set_aside else ""
    return f"{line}; {stopped}" if stopped else line


class _Printer:
    def __init__(self, width: int, color: bool) -> None:
        self._width, self._color = width, color

    def finding(self, finding: Finding) -> str:
        first, *rest = finding.places
        rest, more = rest[:_MOST_PLACES], rest[_MOST_PLACES:]
        lines = [self._paint(_COLORS[finding.severity], f"{finding.severity}[{finding.code}]") + f": {finding.message}"]
        lines += [f"  --> {position(first.site)}{_context(first.site, finding.count)}", *self._excerpt(first)]
        for place in rest:
            lines += [f"  {place.role}: {position(place.site)}", *self._excerpt(place)]
        if more:
            lines.append(f"  and at {', '.join(position(place.site) for place in more)}")
        lines += self._wrapped("why", finding.why) + self._wrapped("help", finding.help)
        if finding.edit is not None:
            lines += _edited(finding.edit)
        return "\n".join(lines)

    def _excerpt(self, place: Place) -> list[str]:
        """The source line, and under it carets and values; only the values where there is no source to show."""
        site = place.site
        source = site.text
        if not source:
            return [f"        | {t}" for t in (place.text, place.note) if t]
        start, end = span(site)
        carets = "^" * max(end - start, 1)
        lead = source[:start].replace("\t", "    ")
        shown = source.replace("\t", "    ")
        room = self._width - 8 if self._width else 0
        if room > 20 and len(shown) > room:
            shown = shown[: room - 1] + "…"
        indent = " " * len(lead)
        lines = [f"  {site.line:5} | {shown}"]
        if room > 20 and len(lead) + len(carets) + 1 + len(place.text) > room:
            lines.append(f"        | {indent}{self._paint('1;31', carets[: max(room - len(lead), 1)])}")
            lines += [f"        | {part}" for part in textwrap.wrap(place.text, room)]
        else:
            lines.append(f"        | {indent}{self._paint('1;31', carets)} {place.text}".rstrip())
        if place.note:
            wide = room > 20 and len(indent) + 1 + len(place.note) > room
            notes = textwrap.wrap(place.note, room) if wide else [f"{indent} {place.note}"]
            lines += [f"        | {note}" for note in notes]
        return lines

    def _wrapped(self, label: str, text: str) -> list[str]:
        if not text:
            return []
        lead = f"  {label}: "
        if not self._width:
            return [lead + text]
        return textwrap.wrap(
            lead + text, max(self._width, 30), subsequent_indent=" " * len(lead), break_long_words=False
        )

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color else text


def span(site: Site) -> tuple[int, int]:
    """The columns of an expression on its first line, from 0; the whole line without its indent if they are unknown."""
    source = site.text
    start = site.column - 1 if site.column else len(source) - len(source.lstrip())
    return start, site.end_column - 1 if site.end_line == site.line and site.end_column else len(source)


def file_name(file: str) -> str:
    """A file's path, relative to the current folder if it is in it."""
    if not os.path.isabs(file):
        return file
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


def position(site: Site) -> str:
    """ "train.py:33:13", relative to the current folder where it is below it."""
    if not site.file:
        return "unknown source"
    gone = "" if site.text else " (its source can't be read)"
    return f"{file_name(site.file)}:{site.line}{f':{site.column}' if site.column else ''}{gone}"


def _context(site: Site, count: int) -> str:
    inside = f"   in {site.function}" if site.function and site.function != "<module>" else ""
    module = f"   module {site.module}" if site.module else ""
    return f"{inside}{module}   ({site.phase}{f', {count} times' if count > 1 else ''})"


def _edited(edit: Edit) -> list[str]:
    return [f"  {edit.line + n:5} | {line}" for n, line in enumerate(edit.text.splitlines())]

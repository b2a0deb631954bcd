"""What changed between two audits: two releases, two backends, two policies; grouped by operation and line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from truecast.diagnose.audit.result import KINDS, Audit, Kind, Row


@dataclass(frozen=True, slots=True)
class Event:
    """What happens at a place, and how often before and after. rules: who decided it, before and after."""

    text: str
    before: int
    after: int
    rules: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Change:
    """One operation on one line that does something else than before: so many of one kind of event, so many bytes.
    nodes: how many nodes of the Graph it stands for; 0 for foreign text. casts_lost: how many fewer casts of the
    program's there are, which before and after optimisation means that the compiler removed them."""

    kind: Kind
    op: str
    file: str
    line: int
    before: int
    after: int
    bytes_before: int
    bytes_after: int
    events: tuple[Event, ...]
    nodes: int = 0
    casts_lost: int = 0


@dataclass(frozen=True)
class AuditDiff:
    """changes: in the order of the source. What is the same in both is not among them."""

    before: Audit
    after: Audit
    changes: tuple[Change, ...]

    def counts(self) -> dict[str, tuple[int, int]]:
        """The figures of both audits, side by side."""
        before, after = self.before.counts(), self.after.counts()
        return {name: (before[name], after[name]) for name in before}


def diff(before: Audit, after: Audit) -> AuditDiff:
    """What `after` does otherwise than `before`. A file is the same if its name and its folder's are: two machines
    keep it in different places."""
    rows_before, rows_after = _by_place(before.rows), _by_place(after.rows)
    changes = []
    for place in sorted({*rows_before, *rows_after}, key=lambda p: (not p[0], p[0], p[1], p[2], KINDS.index(p[3]))):
        old, new = rows_before.get(place, []), rows_after.get(place, [])
        events = _events(old, new)
        if all(event.before == event.after for event in events):
            continue
        first = (old or new)[0]
        changes.append(
            Change(
                place[3],
                place[2],
                first.file,
                first.line,
                sum(row.count for row in old),
                sum(row.count for row in new),
                sum(row.nbytes for row in old),
                sum(row.nbytes for row in new),
                events,
                len({node for row in (*old, *new) for node in row.nodes}),
                max(_casts(old) - _casts(new), 0),
            )
        )
    return AuditDiff(before, after, tuple(changes))


def _casts(rows: list[Row]) -> int:
    return sum(row.count for row in rows if row.kind == "convert" and row.asked == "program" and row.is_floating)


_Place = tuple[str, int, str, Kind]


def _by_place(rows: Iterable[Row]) -> dict[_Place, list[Row]]:
    found: dict[_Place, list[Row]] = {}
    for row in rows:
        file = "/".join(PurePath(row.file.replace("\\", "/")).parts[-2:])
        found.setdefault((file, row.line, row.op, row.kind), []).append(row)
    return found


def _events(old: list[Row], new: list[Row]) -> tuple[Event, ...]:
    texts = sorted({row.event for row in (*old, *new)})
    return tuple(_event(text, old, new) for text in texts)


def _event(text: str, old: list[Row], new: list[Row]) -> Event:
    sides = [[row for row in rows if row.event == text] for rows in (old, new)]
    before, after = (sum(row.count for row in rows) for rows in sides)
    rules = tuple(next((row.rule for row in rows if row.rule), "") for rows in sides)
    return Event(text, before, after, (rules[0], rules[1]))

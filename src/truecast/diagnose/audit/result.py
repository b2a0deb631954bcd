"""What a lowered program does with precision, as data: each convert, each product and sum in 16 bits, each float64.

Rows are what a person reads and a gate compares: one for each operation, source line and kind of event, counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from truecast.diagnose.hlo.module import Problem

Kind = Literal["convert", "rounding", "contraction", "accumulation", "float64", "removed"]
KINDS: tuple[Kind, ...] = ("convert", "rounding", "contraction", "accumulation", "float64", "removed")

# Who asked for a convert: a cast or promotion of the program's, a rule of the Plan, the way an operation is computed
# (of an index or a counter: exact), nobody (the compiler or the framework put it in), or the text does not tell.
Asked = Literal["program", "plan", "lowering", "nobody", "unknown", ""]
ASKED: tuple[Asked, ...] = ("program", "plan", "lowering", "nobody", "unknown")

_FLOATING = ("float", "bfloat", "complex", "tfloat", "e")
_MOST_LINES = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of event at one place, `count` times.

    operation: StableHLO's name ("convert", "dot", "reduce"). source, result: its dtypes ("bfloat16 x bfloat16",
    "float32"). accumulate: the dtype that products or sums are held in, as far as the program says. op: the framework's
    operation ("aten.mul.Tensor", "mul"). asked, rule, why: who asked for it. nbytes: read and written by a convert,
    written by the others, as if nothing were fused. nodes: the Graph's nodes. text_lines: the first lines of the text.
    """

    kind: Kind
    operation: str
    source: str
    result: str
    op: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    function: str = ""
    accumulate: str = ""
    asked: Asked = ""
    rule: str = ""
    why: str = ""
    count: int = 1
    nbytes: int = 0
    nodes: tuple[str, ...] = ()
    text_lines: tuple[int, ...] = ()

    @property
    def is_floating(self) -> bool:
        """Whether it takes a floating value to another floating dtype: the converts that cost accuracy or time."""
        return self.source != self.result and self.source.startswith(_FLOATING) and self.result.startswith(_FLOATING)

    @property
    def event(self) -> str:
        """What happens, in a few characters: "float32 -> bfloat16"."""
        held = f", held in {self.accumulate}" if self.accumulate and self.accumulate != self.result else ""
        return f"{self.source} -> {self.result}{held}" if self.source else self.result

    @property
    def key(self) -> tuple[object, ...]:
        """What two events have in common that are counted as one row; the order of rows."""
        place = (self.file, self.line, self.column, self.op)
        event = (self.operation, self.source, self.result, self.accumulate)
        return (KINDS.index(self.kind), *place, *event, self.asked, self.rule, self.why, self.function)


@dataclass(frozen=True)
class Audit:
    """title: what was audited. language: "StableHLO" or "HLO". instructions: all there are; products: contractions and
    convolutions in any precision. problems: lines that could not be read, the first hundred of unread_lines."""

    title: str
    language: str
    instructions: int
    products: int
    rows: tuple[Row, ...]
    problems: tuple[Problem, ...] = ()
    unread_lines: int = 0

    def of(self, *kinds: Kind) -> tuple[Row, ...]:
        """The rows of these kinds, in order."""
        return tuple(row for row in self.rows if row.kind in kinds)

    def by_line(self) -> list[tuple[tuple[str, int], list[Row]]]:
        """The rows of each source line, in the order of the source; those without a line last."""
        found: dict[tuple[str, int], list[Row]] = {}
        for row in self.rows:
            found.setdefault((row.file, row.line), []).append(row)
        return sorted(found.items(), key=lambda item: (not item[0][0], item[0]))

    def counts(self) -> dict[str, int]:
        """The figures that a gate holds: always the same names in the same order."""
        converts = self.of("convert")
        floating = [row for row in converts if row.is_floating]

        def total(rows: Iterable[Row]) -> int:
            return sum(row.count for row in rows)

        return {
            "instructions": self.instructions,
            "converts": total(floating),
            **{f"converts.{asked}": total(r for r in floating if r.asked == asked) for asked in ASKED},
            "converts.exact": total(converts) - total(floating),
            "converts.bytes": sum(row.nbytes for row in floating),
            "roundings": total(self.of("rounding")),
            "products": self.products,
            "products.reduced": total(self.of("contraction")),
            "accumulations.16bit": total(self.of("accumulation")),
            "float64": total(self.of("float64")),
            "casts.removed": total(self.of("removed")),
            "lines.unread": self.unread_lines,
        }


def grouped(rows: Iterable[Row]) -> tuple[Row, ...]:
    """One row for each key, in the order of `Row.key`."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return tuple(_one(found[key]) for key in sorted(found, key=_sortable))


def _sortable(key: tuple[object, ...]) -> tuple[object, ...]:
    """Rows without a place come after those that have one."""
    kind, file, *rest = key
    return (kind, not file, file, *rest)


def _one(rows: list[Row]) -> Row:
    if len(rows) == 1:
        return rows[0]
    nodes = dict.fromkeys(node for row in rows for node in row.nodes)
    lines = sorted(line for row in rows for line in row.text_lines)[:_MOST_LINES]
    total, nbytes = sum(row.count for row in rows), sum(row.nbytes for row in rows)
    return replace(rows[0], count=total, nbytes=nbytes, nodes=tuple(nodes), text_lines=tuple(lines))

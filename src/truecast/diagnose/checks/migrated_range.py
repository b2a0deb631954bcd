"""TC703: numbers that were infinite under a global downcast, since the dtype they were held in can't hold them."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.checks.out_of_range import beyond, largest
from truecast.diagnose.explained import operation
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.migration import Migration

CODE = "TC703"


def check(migration: Migration) -> Iterator[Finding]:
    """Literals of forward operations that are finite now and were not."""
    for change in migration.changes:
        node, held = change.node, migration.held(change.value.dtype)
        if node.site.phase != "forward" or not change.value.dtype.is_floating:
            continue
        for number in (*node.args, *(a for _, a in node.kwargs)):
            if type(number) in (int, float) and beyond(number, held) and not beyond(number, change.value.dtype):
                yield Finding(
                    CODE,
                    "info",
                    f"{number:.6g} was infinite under {migration.variable}=1 and is finite now",
                    (Place("symptom", node.site, f"{operation(node)} -> {change.value}, held as {held} before"),),
                    f"the largest number of {held} is {largest(held):.6g}; an infinity times zero, or minus another, "
                    "is NaN",
                    f"what worked around it can go, for example a branch on {migration.variable}",
                )

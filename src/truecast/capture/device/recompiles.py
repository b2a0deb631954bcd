"""Why a program was compiled, in words: what differs from the program that is nearest to it.

tc.why_recompiled() shows the last ones.
"""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from truecast.capture.device.values import Lazy, Record, ScalarSlot, Slot, Spec
from truecast.ops.schema import bind

_REMEMBERED = 256  # programs compared with, and reasons kept: the newest


@dataclass(frozen=True)
class _Seen:
    """What is compared of a program: Spec numbers in order, and what else its key holds."""

    specs: tuple[int, ...]
    names: tuple[str, ...]
    donated: tuple[int, ...]
    kept: tuple[int, ...]
    policy: Hashable


class Log:
    def __init__(self) -> None:
        self.reasons: deque[str] = deque(maxlen=_REMEMBERED)
        self._seen: deque[_Seen] = deque(maxlen=_REMEMBERED)
        self._specs: dict[int, Spec] = {}

    def program(
        self, records: list[Record], inputs: list[Lazy], kept: list[Lazy], donated: tuple[int, ...], policy: Hashable
    ) -> None:
        """A program that has no predecessor of the same key."""
        specs = tuple([record.spec.number for record in records])
        self._specs.update((record.spec.number, record.spec) for record in records)
        now = _Seen(
            specs, tuple([record.spec.op for record in records]), donated, tuple([lazy.number for lazy in kept]), policy
        )
        nearest = min(self._seen, key=lambda seen: _distance(seen, now), default=None)
        size = f"{len(records)} operation{'s' if len(records) != 1 else ''}"
        if nearest is None or _distance(nearest, now)[0] >= max(len(specs), 1):
            self.reasons.append(f"a new program: {size}, {len(inputs)} inputs, {len(kept)} results")
        else:
            self.reasons.append(f"{size}: {self._difference(nearest, now, records)}")
        self._seen.append(now)

    def numbers(self, records: list[Record], old: list[Any], new: list[Any], changed: frozenset[int]) -> None:
        """The same program with other Python numbers, which become inputs (law N6)."""
        position = 0
        shown: list[str] = []
        for record in records:
            for _ in record.scalars:
                if position in changed and len(shown) < 3:
                    site = record.position.site()
                    shown.append(f"{old[position]!r} became {new[position]!r} in {record.spec.op} at {site}")
                position += 1
        more = f" and {len(changed) - len(shown)} more" if len(changed) > len(shown) else ""
        count = f"{len(changed)} Python numbers changed and are inputs" if len(changed) != 1 else (
            "1 Python number changed and is an input"
        )  # fmt: skip
        self.reasons.append(f"{count} from now on: {'; '.join(shown)}{more}")

    def _difference(self, before: _Seen, now: _Seen, records: list[Record]) -> str:
        if before.specs != now.specs:
            matcher = difflib.SequenceMatcher(None, before.specs, now.specs, autojunk=False)
            tag, a, a_end, b, b_end = next(code for code in matcher.get_opcodes() if code[0] != "equal")
            if tag == "delete":
                gone = self._specs[before.specs[a]]
                return f"{gone} is not there any more ({a_end - a} fewer from operation {a + 1} on)"
            site, new = records[b].position.site(), records[b].spec
            if tag == "insert":
                return f"{new} at {site} is new ({b_end - b} more from operation {b + 1} on)"
            old = self._specs[before.specs[a]]
            if repr(old) == repr(new):
                return f"operation {b + 1}, {new.op} at {site}: {_in_detail(old, new, records[b].scalars)}"
            return f"operation {b + 1} is {new} at {site}, where the nearest program has {old}"
        if before.policy != now.policy:
            return "the same operations under another policy of numerics (law N9)"
        if before.donated != now.donated:
            return "the same operations, but other inputs are still held by a tensor, so their memory can't be reused"
        if before.kept != now.kept:
            return f"the same operations, but {len(now.kept)} results are still wanted instead of {len(before.kept)}"
        return "the same operations on operands that are connected otherwise"


def _in_detail(old: Spec, new: Spec, numbers: tuple[Any, ...]) -> str:
    """What differs between two Specs of one operation on operands of the same dtypes and shapes."""
    before, now = bind(old.op, old.args, old.kwargs), bind(new.op, new.args, new.kwargs)
    differing = [name for name in now if _plain(before[name]) != _plain(now[name])]
    shown = [
        f"{name} is {_shown(now[name], numbers)} where the nearest program has {_shown(before[name], ())}"
        for name in differing
    ]
    for index, (was, meta) in enumerate(zip(old.metas, new.metas, strict=True)):
        if was is not meta:
            here, there = (f"strides {m.strides} from element {m.offset} on" for m in (meta, was))
            shown.append(f"operand {index + 1} has {here} where the nearest program's has {there}")
    return "; ".join(shown) or "it was recorded under another policy of numerics"


def _plain(argument: Any) -> Any:
    """What tells one argument of a Spec from another: 1, 1.0 and True differ."""
    if isinstance(argument, list | tuple):
        return tuple([_plain(item) for item in argument])
    return type(argument), argument.index if isinstance(argument, Slot) else repr(argument)


def _shown(argument: Any, numbers: tuple[Any, ...]) -> str:
    if isinstance(argument, list | tuple):
        return f"[{', '.join([_shown(item, numbers) for item in argument])}]"
    if type(argument) is ScalarSlot:  # of the nearest program only the Spec is known
        return repr(numbers[argument.index]) if numbers else "a number that may change"
    return "a tensor" if type(argument) is Slot else repr(argument)


def _distance(seen: _Seen, now: _Seen) -> tuple[int, int, int]:
    """Operations that are others; those that are on other operands; then what else differs."""
    others = (seen.policy != now.policy) + (seen.donated != now.donated) + (seen.kept != now.kept)
    return _differing(seen.names, now.names), _differing(seen.specs, now.specs), others


def _differing(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    """How many positions are left between what two sequences begin and end with alike."""
    shorter = min(len(a), len(b))
    front = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    back = next((i for i in range(shorter - front) if a[-1 - i] != b[-1 - i]), shorter - front)
    return max(len(a), len(b)) - front - back

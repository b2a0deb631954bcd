"""What operands on the device hold is checked: contents that PyTorch refuses on the CPU raise what it raises there,
when a value is next read.

Contents on the device can't be looked at while operations are recorded. Beside an operation that demands something of
them, operations are recorded that look at them and return a few numbers of the same program; when it next waits for a
value the numbers are judged. So an error may come later than its operation, as on every asynchronous device; a note
names the line. Which operation demands what is bounds.py's and contents.py's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch

from truecast.capture.device.values import Failure, Lazy, Record, Slot, Spec
from truecast.ops.schema import schema

Emit = Callable[[str, tuple[Any, ...], tuple[tuple[str, Any], ...], torch.dtype, tuple[int, ...]], Lazy]
Verdict = Callable[..., Exception | None]


@dataclass(frozen=True, slots=True)
class Check:
    """What some operands of a call must hold. operands: their positions in its Spec. look: records what makes numbers
    of them; verdict: what those numbers raise. key: with it and the operands the numbers are the same ones."""

    key: Hashable
    operands: tuple[int, ...]
    look: Callable[..., list[Lazy]]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class NumberCheck:
    """What a Python number of a call must be: number `position` of its Spec."""

    position: int
    verdict: Verdict


class Call:
    """A Spec's arguments by name, and what there is to ask of them."""

    __slots__ = ("given", "metas", "op", "outputs")

    def __init__(self, spec: Spec) -> None:
        names = [parameter.name for parameter in schema(spec.op).parameters]
        self.op, self.metas, self.outputs = spec.op, spec.metas, spec.outputs
        self.given = dict(zip(names, spec.args, strict=False)) | dict(spec.kwargs)

    def tensor(self, name: str) -> int | None:
        """The position of the operand; None if the argument is no tensor, or one without elements."""
        slot = self.given.get(name)
        return slot.index if type(slot) is Slot and 0 not in self.metas[slot.index].shape else None

    def shape(self, name: str) -> tuple[int, ...]:
        return self.metas[self.given[name].index].shape


class Look:
    """Operations that look at a value."""

    __slots__ = ("emit",)

    def __init__(self, emit: Emit) -> None:
        self.emit = emit

    def least(self, x: Lazy) -> Lazy:
        return self.emit("aten.amin.default", (x,), (), x.dtype, ())

    def greatest(self, x: Lazy) -> Lazy:
        return self.emit("aten.amax.default", (x,), (), x.dtype, ())

    def total(self, x: Lazy) -> Lazy:
        dtype = x.dtype if x.dtype.is_floating_point else torch.int64
        return self.emit("aten.sum.default", (x,), (), dtype, ())

    def totals(self, x: Lazy) -> Lazy:
        """Sums along the last dimension."""
        dtype = x.dtype if x.dtype.is_floating_point else torch.int64
        return self.emit("aten.sum.dim_IntList", (x, (-1,)), (), dtype, x.shape[:-1])

    def any(self, mask: Lazy) -> Lazy:
        return self.emit("aten.any.default", (mask,), (), torch.bool, ())

    def equal(self, x: Lazy, number: float) -> Lazy:
        return self.emit("aten.eq.Scalar", (x, number), (), torch.bool, x.shape)

    def differ(self, x: Lazy, number: float) -> Lazy:
        return self.emit("aten.ne.Scalar", (x, number), (), torch.bool, x.shape)

    def filled(self, x: Lazy, mask: Lazy, number: float) -> Lazy:
        return self.emit("aten.masked_fill.Scalar", (x, mask, number), (), x.dtype, x.shape)

    def number(self, mask: Lazy) -> Lazy:
        return self.emit("aten._to_copy.default", (mask,), (("dtype", torch.int32),), torch.int32, mask.shape)

    def isnan(self, x: Lazy) -> Lazy:
        return self.emit("aten.isnan.default", (x,), (), torch.bool, x.shape)

    def at(self, x: Lazy, index: int) -> Lazy:
        """One element along the first dimension."""
        return self.emit("aten.select.int", (x, 0, index), (), x.dtype, x.shape[1:])

    def part(self, x: Lazy, start: int, end: int) -> Lazy:
        """Elements along the last dimension."""
        arguments = (x, len(x.shape) - 1, start, end)
        return self.emit("aten.slice.Tensor", arguments, (), x.dtype, (*x.shape[:-1], end - start))

    def difference(self, x: Lazy, y: Lazy) -> Lazy:
        return self.emit("aten.sub.Tensor", (x, y), (), x.dtype, x.shape)


def within(
    operand: int, low: float | None, high: float | None, refused: Callable[[Any], Exception], ignored: Any = None
) -> Check:
    """Each element is from low to high, None for no bound, or is `ignored` if that is a number. A nan never is."""

    def look(look: Look, x: Lazy) -> list[Lazy]:
        if ignored is not None:
            x = look.filled(x, look.equal(x, ignored), 0)
        return [look.least(x), look.greatest(x)]

    def verdict(least: Any, greatest: Any) -> Exception | None:
        if high is not None and not greatest <= high:
            return refused(greatest)
        return refused(least) if low is not None and not least >= low else None

    return Check(("within", low, high, ignored), (operand,), look, verdict)


class Guard:
    """The numbers that tell whether one operation's operands hold what they must, in memory of their own."""

    __slots__ = ("numbers", "record", "verdict")

    def __init__(self, record: Record, verdict: Verdict, numbers: list[Any]) -> None:
        self.record, self.verdict, self.numbers = record, verdict, numbers

    def is_started(self) -> bool:
        return all(number.value.buffer is not None for number in self.numbers)

    def judge(self, read: Callable[[Lazy], Any]) -> None:
        """Raises what PyTorch raises for such contents."""
        if any(type(number.value.buffer) is Failure for number in self.numbers):
            return  # whoever reads the operation's own result is told why
        error = self.verdict(*[read(number.value) for number in self.numbers])
        if error is not None:
            raise _noted(error, self.record)


def _noted(error: Exception, record: Record) -> Exception:
    error.add_note(f"in {record.spec.op} at {record.position.site()}")
    return error


class Guards:
    """The guards of operations that have been recorded and not been judged yet."""

    def __init__(self) -> None:
        self._new: list[Guard] = []
        self._old: list[Guard] = []
        self._known: set[Hashable] = set()  # of this run: checks with the identities of their operands, which it keeps
        self._run = 0

    def add(self, record: Record, run: int, emit: Emit, root: Any) -> None:
        """Guards what a record demands: the numbers that tell become part of what is pending. Python's are judged.

        run: a number that each run of the tape changes; values that were checked for the same since the last one need
        no second guard.
        """
        if run != self._run:
            self._known.clear()
            self._run = run
        for check in record.spec.bounds:
            if type(check) is NumberCheck:
                error = check.verdict(record.scalars[check.position])
                if error is not None:
                    raise _noted(error, record)
                continue
            operands = [record.operands[index] for index in check.operands]
            key = (check.key, *map(id, operands))
            if key not in self._known:
                self._known.add(key)
                numbers = check.look(Look(emit), *operands)
                self._new.append(Guard(record, check.verdict, [root(number) for number in numbers]))

    def judge(self, read: Callable[[Lazy], Any], *, waits: bool) -> None:
        """Judges all guards whose values were started; without `waits`, those that were there at the last call.

        Raises the first error; the others are forgotten with it, as what ran after a wrong operand is.
        """
        chosen = self._old
        if waits:
            chosen = [*self._old, *self._new]
            self._new = []
        self._old, self._new = self._new, []
        pending = [guard for guard in chosen if not guard.is_started()]
        for guard in chosen:
            if guard.is_started():
                guard.judge(read)
        self._new = [*pending, *self._new]

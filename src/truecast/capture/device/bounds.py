"""Index tensors on the device are checked: one out of bounds raises what PyTorch raises on the CPU, when a value is
next read.

Contents on the device can't be looked at while operations are recorded. Beside an operation that takes an index tensor
its least and greatest element are recorded as well, two numbers of the same program; when the program next waits for a
value they are compared with the bounds. So an error may come later than its operation, as on every asynchronous device;
a note names the line. The bounds and the words are those of PyTorch 2.13's CPU kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from truecast.capture.device.values import Failure, Lazy, Meta, Record, Slot, Spec
from truecast.ops.schema import schema


@dataclass(frozen=True, slots=True)
class Row:
    """An operation with one index tensor. of: the tensor it indexes; along: how its extent is found: "first" dimension,
    the one that `dim` names, its number of "elements", its "classes". wraps: whether negative indices count from the
    end."""

    index: str
    of: str
    along: str
    error: type[Exception]
    words: str
    wraps: bool = False


_OUT_OF_BOUNDS = "index {index} is out of bounds for dimension {dim} with size {size}"
_ALONG_DIM = Row("index", "self", "dim", RuntimeError, _OUT_OF_BOUNDS)
_IN_SELF = "index out of range in self"
_ELEMENTS = "out of range: tried to access index {index} on a tensor of {size} elements."
_BAG = "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {index}"
_IN_BAG = Row("indices", "weight", "first", RuntimeError, _BAG)
_CLASSES = Row("target", "self", "classes", IndexError, "Target {index} is out of bounds.")

ROWS: dict[str, Row] = {
    "aten.embedding": Row("indices", "weight", "first", IndexError, _IN_SELF),
    "aten._embedding_bag": _IN_BAG,
    "aten._embedding_bag_forward_only": _IN_BAG,
    "aten.index_select": Row("index", "self", "dim", IndexError, _IN_SELF),
    "aten.gather": _ALONG_DIM,
    "aten.scatter": _ALONG_DIM,
    "aten.scatter_add": _ALONG_DIM,
    "aten.scatter_reduce": _ALONG_DIM,
    "aten.index_add": _ALONG_DIM,
    "aten.index_copy": Row("index", "self", "dim", IndexError, "index_copy_(): " + _OUT_OF_BOUNDS),
    "aten.index_fill": Row("index", "self", "dim", IndexError, _OUT_OF_BOUNDS, wraps=True),
    "aten.index_reduce": Row("index", "self", "dim", IndexError, _IN_SELF),
    "aten.take": Row("index", "self", "elements", IndexError, _ELEMENTS, wraps=True),
    "aten.put": Row("index", "self", "elements", IndexError, _ELEMENTS, wraps=True),
    "aten.multi_margin_loss": Row("target", "self", "classes", RuntimeError, "target out of range"),
    "aten.nll_loss_forward": _CLASSES,
    "aten.nll_loss2d_forward": _CLASSES,
}
_LISTS = frozenset(("aten.index", "aten.index_put"))  # a list of index tensors, one a dimension


@dataclass(frozen=True, slots=True)
class Bound:
    """What operand number `operand` of a Spec may hold: low to high, and `ignored` if that is a number."""

    operand: int
    low: int
    high: int
    ignored: int | None
    error: Callable[[int], Exception]


def bounds_of(spec: Spec) -> tuple[Bound, ...]:
    """The bounds of a Spec's index operands; none for an operation without any."""
    operation = spec.op.rpartition(".")[0]
    if operation not in ROWS and operation not in _LISTS:
        return ()
    names = [parameter.name for parameter in schema(spec.op).parameters]
    given = dict(zip(names, spec.args, strict=False)) | dict(spec.kwargs)
    if operation in _LISTS:
        shape = spec.metas[given["self"].index].shape
        numbers = [(dim, slot) for dim, slot in enumerate(given["indices"]) if slot is not None]
        return tuple(  # the kernel counts the dimensions that are indexed
            _bound(spec, slot, shape[dim], None, _OUT_OF_BOUNDS, IndexError, counted, True)
            for counted, (dim, slot) in enumerate(numbers)
            if spec.metas[slot.index].dtype not in (torch.bool, torch.uint8)
        )
    row = ROWS[operation]
    if type(given[row.index]) is not Slot:
        return ()
    shape = spec.metas[given[row.of].index].shape
    dim = 0
    if row.along == "dim":
        dim = given["dim"] % max(len(shape), 1)
    elif row.along == "classes":
        dim = min(1, len(shape) - 1)
    size = math.prod(shape) if row.along == "elements" or not shape else shape[dim]
    ignored = given.get("ignore_index") if row.along == "classes" else None
    return (_bound(spec, given[row.index], size, ignored, row.words, row.error, dim, row.wraps),)


def _bound(
    spec: Spec, slot: Slot, size: int, ignored: int | None, words: str, error: type[Exception], dim: int, wraps: bool
) -> Bound:
    def refused(index: int) -> Exception:
        return error(words.format(index=index, dim=dim, size=size))

    return Bound(slot.index, -size if wraps else 0, size - 1, ignored, refused)


class Guard:
    """The least and greatest index that one operation was given, in memory of their own, and what they may be."""

    __slots__ = ("bound", "high", "low", "record")

    def __init__(self, bound: Bound, record: Record, low: Any, high: Any) -> None:
        self.bound, self.record, self.low, self.high = bound, record, low, high

    def judge(self, read: Callable[[Lazy], int]) -> None:
        """Raises what PyTorch raises for an index out of bounds."""
        for lazy in (self.low.value, self.high.value):
            if type(lazy.buffer) is Failure:  # whoever reads the operation's own result is told why
                return
        low, high = read(self.low.value), read(self.high.value)
        if low < self.bound.low or high > self.bound.high:
            error = self.bound.error(high if high > self.bound.high else low)
            error.add_note(f"in {self.record.spec.op} at {self.record.position.site()}")
            raise error


Emit = Callable[[Spec, tuple[Lazy, ...]], tuple[Lazy | None, ...]]


class Guards:
    """The guards of operations that have been recorded and not been judged yet."""

    def __init__(self) -> None:
        self._new: list[Guard] = []
        self._old: list[Guard] = []
        # Of this run: (identity of the index value, low, high, ignored). Pending records keep their operands alive.
        self._known: set[tuple[int, int, int, int | None]] = set()
        self._run = 0

    def add(self, record: Record, run: int, emit: Emit, root: Any) -> None:
        """Guards the index operands of a record: their extremes become part of what is pending.

        run: a number that each run of the tape changes; an index that was guarded with the same bounds since the
        last one needs no second guard.
        """
        if run != self._run:
            self._known.clear()
            self._run = run
        for bound in record.spec.bounds:
            index = record.operands[bound.operand]
            if not index.size or index.meta.dtype is torch.bool:
                continue
            key = (id(index), bound.low, bound.high, bound.ignored)
            if key in self._known:
                continue
            self._known.add(key)
            looked_at = index
            if bound.ignored is not None:
                mask = emit(_equals(index.meta, bound.ignored), (index,))[0]
                assert mask is not None
                filled = emit(_filled(index.meta, mask.meta), (index, mask))[0]
                assert filled is not None
                looked_at = filled
            low, high = emit(_extremes(looked_at.meta), (looked_at,))
            self._new.append(Guard(bound, record, root(low), root(high)))

    def judge(self, read: Callable[[Lazy], int], *, waits: bool) -> None:
        """Judges all guards whose values were started; without `waits`, those that were there at the last call.

        Raises the first error; the others are forgotten with it, as what ran after a wrong index is.
        """
        chosen = self._old
        if waits:
            chosen = [*self._old, *self._new]
            self._new = []
        self._old, self._new = self._new, []
        pending = [g for g in chosen if g.low.value.buffer is None]
        for guard in chosen:
            if guard.low.value.buffer is not None:
                guard.judge(read)
        self._new = [*pending, *self._new]


_specs: dict[tuple[Any, ...], Spec] = {}


def _extremes(meta: Meta) -> Spec:
    scalar = Meta.dense(meta.dtype, ())
    return _interned(meta, None, "aten.aminmax.default", (Slot(0),), (meta,), (scalar, scalar))


def _equals(meta: Meta, number: int) -> Spec:
    result = Meta.dense(torch.bool, meta.shape)
    return _interned(meta, number, "aten.eq.Scalar", (Slot(0), number), (meta,), (result,))


def _filled(meta: Meta, mask: Meta) -> Spec:
    result = Meta.dense(meta.dtype, meta.shape)
    return _interned(meta, 0, "aten.masked_fill.Scalar", (Slot(0), Slot(1), 0), (meta, mask), (result,))


def _interned(
    meta: Meta,
    number: int | None,
    op: str,
    args: tuple[Any, ...],
    metas: tuple[Meta, ...],
    outputs: tuple[Meta | None, ...],
) -> Spec:
    key = (op, meta, number)
    if key not in _specs:
        _specs[key] = Spec(op, args, (), metas, outputs)
    return _specs[key]

"""What the device records: metas, lazy values, records. Plain objects with slots; the hot path makes many.

Imports no dispatcher: tensor.py makes these, tape.py turns them into a Graph.
"""

from __future__ import annotations

from typing import Any

import torch

from truecast.capture.position import Position


class Meta:
    """Dtype, shape, strides and storage offset (in elements) of a tensor; interned, compared by identity."""

    __slots__ = ("dtype", "offset", "shape", "strides")
    _all: dict[tuple[Any, ...], Meta] = {}

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Meta:
        key = (dtype, shape, strides, offset)
        found = cls._all.get(key)
        if found is None:
            found = cls()
            found.dtype, found.shape, found.strides, found.offset = key
            found = cls._all.setdefault(key, found)
        return found

    @classmethod
    def of_tensor(cls, tensor: torch.Tensor) -> Meta:
        return cls.of(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())

    @property
    def is_contiguous(self) -> bool:
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected:
                return 0 in self.shape
            expected *= extent
        return True

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


class Lazy:
    """One value: made by `record` (its output number `index`), or held in `buffer`, or neither any more.

    `lost` is True once the tape has run without this value being kept: it can only be made again from the
    memory it is a view of. `number` belongs to the tape while it runs.
    """

    __slots__ = ("buffer", "dtype", "index", "lost", "number", "record", "shape")

    def __init__(
        self, dtype: torch.dtype, shape: tuple[int, ...], record: Record | None, index: int = 0, buffer: Any = None
    ) -> None:
        self.dtype, self.shape = dtype, shape
        self.record, self.index, self.buffer = record, index, buffer
        self.lost = False
        self.number = -1

    @property
    def size(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count


class Spec:
    """What two records of the same operation on operands of the same dtypes and shapes share; interned.

    args, kwargs: the call with each tensor replaced by Slot(i) and each liftable number by ScalarSlot(j).
    outputs: a Meta per tensor that the operation returns, None for an undefined one.
    """

    __slots__ = ("args", "kwargs", "number", "op", "outputs", "scalar_types")
    _count = 0

    def __init__(
        self,
        op: str,
        args: tuple[Any, ...],
        kwargs: tuple[tuple[str, Any], ...],
        outputs: tuple[Meta | None, ...],
        scalar_types: tuple[type, ...],
    ) -> None:
        self.op, self.args, self.kwargs, self.outputs, self.scalar_types = op, args, kwargs, outputs, scalar_types
        Spec._count += 1
        self.number = Spec._count


class Slot:
    """Place of operand number `index` in a Spec's arguments."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class ScalarSlot(Slot):
    """Place of Python number `index`: one that may change from step to step without a recompile (law N6)."""

    __slots__ = ()


class Record:
    """One recorded operation: its Spec, its operands, its Python numbers, and where the program asked for it."""

    __slots__ = ("number", "operands", "outputs", "position", "scalars", "spec")

    def __init__(self, spec: Spec, operands: tuple[Lazy, ...], scalars: tuple[Any, ...], position: Position) -> None:
        self.spec, self.operands, self.scalars, self.position = spec, operands, scalars, position
        self.outputs: tuple[Lazy | None, ...] = tuple(
            None if meta is None else Lazy(meta.dtype, meta.shape, self, index)
            for index, meta in enumerate(spec.outputs)
        )
        self.number = -1

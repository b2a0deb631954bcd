"""What the device records: metas, lazy values, records. Plain objects with slots; the hot path makes many.

Imports no dispatcher: dispatch.py makes these, tape.py and lowered_graph.py turn them into a Graph.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch

from truecast.capture.device.held import known
from truecast.capture.position import Position

Layout = tuple[tuple[int, ...], int]  # strides and storage offset, in elements


class Meta:
    """Dtype, shape, strides and storage offset (in elements) of a tensor; interned, compared by identity.

    layout: strides and offset, None for contiguous memory from offset 0 on. is_plain: there is nothing to say of its
    strides; a view that kept one element of a dimension is contiguous and not plain. shares_elements: several elements
    lie in one place of the memory, as an expanded tensor's do.
    """

    __slots__ = ("dtype", "is_plain", "layout", "offset", "shape", "shares_elements", "strides")
    _all: ClassVar[dict[tuple[Any, ...], Meta]] = {}

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    layout: Layout | None
    is_plain: bool
    shares_elements: bool

    @classmethod
    def of(cls, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Meta:
        key = (dtype, shape, strides, offset)
        found = cls._all.get(key)
        if found is None:
            known(dtype)
            found = cls()
            found.dtype, found.shape, found.strides, found.offset = key
            found.layout = None if offset == 0 and _contiguous(shape, strides) else (strides, offset)
            found.is_plain = offset == 0 and strides == dense_strides(shape)
            repeated = (s == 0 and extent > 1 for extent, s in zip(shape, strides, strict=True))
            found.shares_elements = 0 not in shape and any(repeated)
            found = cls._all.setdefault(key, found)
        return found

    @classmethod
    def of_tensor(cls, tensor: torch.Tensor) -> Meta:
        return cls.of(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())

    @classmethod
    def dense(cls, dtype: torch.dtype, shape: tuple[int, ...]) -> Meta:
        return cls.of(dtype, shape, dense_strides(shape))

    def __repr__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}[{','.join(map(str, self.shape))}]"


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return 0 in shape
        expected *= extent
    return True


class Failure:
    """Stands where a buffer would: the value could not be computed, since `error` was raised."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Lazy:
    """One value: made by `record` (its output number `index`), or held in `buffer`, or neither any more.

    `lost` is True once the tape has run without this value being kept: it can only be made again from the
    memory it is a view of. `number` belongs to the tape while it runs.
    """

    __slots__ = ("buffer", "index", "lost", "meta", "number", "record")

    def __init__(self, meta: Meta, record: Record | None, index: int = 0, buffer: Any = None) -> None:
        self.meta = meta
        self.record = record
        self.index = index
        self.buffer = buffer
        self.lost = False
        self.number = -1

    @property
    def dtype(self) -> torch.dtype:
        return self.meta.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.meta.shape

    @property
    def size(self) -> int:
        return math.prod(self.meta.shape)


class Spec:
    """What two records of the same operation on operands of the same dtypes and shapes share; interned.

    args, kwargs: the call with each tensor replaced by Slot(i) and each liftable number by ScalarSlot(j).
    outputs: a Meta per tensor that the operation returns, None for an undefined one. draws: it needs random bits.
    violation: the dtype contract that the operands break, None for none (law N12). bounds: of its index
    operands. values_type: of a list result.
    """

    __slots__ = ("args", "bounds", "draws", "kwargs", "metas", "number", "op", "outputs", "single", "violation")
    _count = 0

    def __init__(
        self,
        op: str,
        args: tuple[Any, ...],
        kwargs: tuple[tuple[str, Any], ...],
        metas: tuple[Meta, ...],
        outputs: tuple[Meta | None, ...],
    ) -> None:
        self.op, self.args, self.kwargs, self.metas, self.outputs = op, args, kwargs, metas, outputs
        self.single = outputs[0] if len(outputs) == 1 else None
        self.draws = False
        self.violation: Any = None
        self.bounds: tuple[Any, ...] = ()
        Spec._count += 1
        self.number = Spec._count

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.metas))})"


class Slot:
    """Place of operand number `index` in a Spec's arguments."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class ScalarSlot(Slot):
    """Place of Python number `index`: one that may change from step to step without a recompile (law N6)."""

    __slots__ = ()


class Record:
    """One recorded operation: its Spec, its operands, its Python numbers, where the program asked for it, and the two
    random words of one that draws. It and its outputs refer to each other until the tape has run."""

    __slots__ = ("number", "operands", "outputs", "position", "scalars", "spec", "words")

    def __init__(
        self,
        spec: Spec,
        operands: tuple[Lazy, ...],
        scalars: tuple[Any, ...],
        position: Position,
        words: list[int] | None = None,
    ) -> None:
        self.spec = spec
        self.operands = operands
        self.scalars = scalars
        self.position = position
        self.words = words
        self.number = -1
        single = spec.single
        if single is not None:
            self.outputs: tuple[Lazy | None, ...] = (Lazy(single, self),)
        else:
            self.outputs = tuple(
                [None if meta is None else Lazy(meta, self, index) for index, meta in enumerate(spec.outputs)]
            )

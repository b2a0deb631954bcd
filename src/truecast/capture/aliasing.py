"""Views and in-place writes, made functional: which value a tensor has, when tensors share memory.

Each tensor that the program sees has an `Alias`: a root (the memory as it was first seen), or one view
operation on another alias. The root alone holds the contents, as a Value with a version. A write through an
alias computes the root's new value by the inverses of the view operations; a read of an alias whose cached
value is older than its root replays the view operations. Chains are walked in loops, never by recursion.

Knows nothing of tensors or dispatch, so that the recorder and the `pjrt` device share it: nodes are emitted
through a callback.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from truecast.errors import UnsupportedError
from truecast.graph import Argument


class Contents(Protocol):
    """What a tensor holds: a graph.Value for the recorder, a lazy value for the device."""

    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def size(self) -> int: ...


V = TypeVar("V", bound=Contents)

# emit(op, args, kwargs, dtype, shape) records one node with one output and returns it.
Emit = Callable[[str, tuple[Argument, ...], tuple[tuple[str, Argument], ...], Any, tuple[int, ...]], V]


@dataclass(frozen=True, slots=True)
class Step:
    """One view operation: `op`(viewed, *args, **kwargs)."""

    op: str
    args: tuple[Argument, ...] = ()
    kwargs: tuple[tuple[str, Argument], ...] = ()


class Alias(Generic[V]):
    """A tensor's place in memory. `value` is what it held at `version` of its root."""

    __slots__ = ("_root", "layout", "parent", "step", "value", "version")

    def __init__(self, value: V, parent: Alias[V] | None = None, step: Step | None = None) -> None:
        self.value: V = value
        self.parent = parent
        self.step = step
        # None for a root itself: no cycle, since a root must not outlive its tensors.
        self._root: Alias[V] | None = None if parent is None else parent.root
        self.version: int = 0 if parent is None else self.root.version
        # Of a root: (strides, storage offset), or None for contiguous memory from offset 0 on.
        self.layout: tuple[tuple[int, ...], int] | None = None

    @property
    def root(self) -> Alias[V]:
        return self if self._root is None else self._root

    def view(self, step: Step, value: V) -> Alias[V]:
        """The alias of a view of this one, whose value has just been computed."""
        return Alias(value, self, step)


def read(alias: Alias[V], emit: Emit[V]) -> V:
    """The value of the tensor now; emits the view operations again if its memory was written since."""
    root = alias.root
    if alias.version == root.version:
        return alias.value
    stale: list[Alias[V]] = []
    current = alias
    while current.version != root.version:
        stale.append(current)
        assert current.parent is not None, "a root is never older than itself"
        current = current.parent
    value = current.value
    for link in reversed(stale):
        value = _apply(link, value, emit)
        link.value, link.version = value, root.version
    return alias.value


def write(alias: Alias[V], value: V, emit: Emit[V]) -> None:
    """The tensor's memory now holds `value` (of the tensor's own dtype and shape)."""
    assert (value.dtype, value.shape) == (alias.value.dtype, alias.value.shape), f"{value} written to {alias.value}"
    if alias.parent is None:
        alias.value = value
        alias.version += 1
        return
    root = alias.root
    written: list[tuple[Alias[V], V]] = [(alias, value)]
    current = alias
    while current.parent is not None:
        value = _invert(current, value, emit)
        current = current.parent
        written.append((current, value))
    version = root.version + 1
    for link, contents in written:
        link.value, link.version = contents, version


def _apply(link: Alias[V], value: V, emit: Emit[V]) -> V:
    step = link.step
    assert step is not None
    if step.op in IDENTITY:
        return value
    return emit(step.op, (value, *step.args), step.kwargs, link.value.dtype, link.value.shape)


def _invert(link: Alias[V], value: V, emit: Emit[V]) -> V:
    """The new value of `link`'s parent, once `value` is written through `link`'s view operation."""
    step, parent = link.step, link.parent
    assert step is not None and parent is not None
    if step.op in IDENTITY:
        return value
    outer = parent.value
    if step.op in _RESHAPES:
        return emit("aten.view.default", (value, outer.shape), (), outer.dtype, outer.shape)
    if step.op in _INVOLUTIONS:
        return emit(step.op, (value, *step.args), step.kwargs, outer.dtype, outer.shape)
    if step.op in _COUNTERPARTS:
        return emit(_COUNTERPARTS[step.op], (value,), (), outer.dtype, outer.shape)
    if step.op == "aten.view.dtype":
        return emit(step.op, (value, outer.dtype), (), outer.dtype, outer.shape)
    if step.op == "aten.permute.default":
        rank = len(outer.shape)
        dims = [d % rank for d in step.args[0]] if rank else []
        inverse = tuple(dims.index(i) for i in range(rank))
        return emit(step.op, (value, inverse), (), outer.dtype, outer.shape)
    if step.op == "aten.expand.default" and value.size == outer.size:
        return emit("aten.view.default", (value, outer.shape), (), outer.dtype, outer.shape)
    if step.op in _SCATTERS and not (step.op == "aten.as_strided.default" and _may_overlap(*step.args[:2])):
        if value.shape == outer.shape and step.op == "aten.slice.Tensor":
            return value  # the slice is the whole tensor
        current = read(parent, emit)
        return emit(_SCATTERS[step.op], (current, value, *step.args), step.kwargs, outer.dtype, outer.shape)
    raise UnsupportedError(
        f"a write through {step.op}",
        values=f"{value} into {outer}",
        why="the view operation has no inverse that truecast knows: several of its elements may share memory",
        help="write to a copy (`.clone()`) instead of the view",
    )


def _may_overlap(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two elements may have the same place: a stride does not step over all that the smaller ones span."""
    span = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and stride <= span:
            return True
        span += (size - 1) * stride
    return False


# View operations that change no element, no shape and no dtype.
IDENTITY = frozenset(("aten.alias.default", "aten.detach.default", "aten.lift_fresh.default", "aten.lift.default"))
# Elements keep their order: the inverse is a reshape.
_RESHAPES = frozenset(
    f"aten.{name}"
    for name in (
        *("view.default", "_unsafe_view.default", "_reshape_alias.default", "reshape.default"),
        *("squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default", "unflatten.int", "flatten.using_ints"),
    )
)
# Each is its own inverse with the same arguments.
_INVOLUTIONS = frozenset(
    f"aten.{name}.{variant}"
    for name, variant in (("t", "default"), ("transpose", "int"), ("_conj", "default"), ("_neg_view", "default"))
)
_COUNTERPARTS = {
    "aten.view_as_real.default": "aten.view_as_complex.default",
    "aten.view_as_complex.default": "aten.view_as_real.default",
}
_SCATTERS = {
    "aten.slice.Tensor": "aten.slice_scatter.default",
    "aten.select.int": "aten.select_scatter.default",
    "aten.diagonal.default": "aten.diagonal_scatter.default",
    "aten.as_strided.default": "aten.as_strided_scatter.default",
}


def single_step(op: str, args: tuple[Argument, ...], kwargs: tuple[tuple[str, Argument], ...], index: int) -> Step:
    """The Step of result number `index` of a view operation on args[0]; a part of a split becomes a slice.

    `args` holds the viewed Value first; the others are literals. Raises UnsupportedError for a view operation
    with several results that is not a split.
    """
    if op == "aten.unbind.int":
        return Step("aten.select.int", (_given(args, kwargs, 1, "dim", 0), index))
    if op in ("aten.split.Tensor", "aten.split_with_sizes.default"):
        viewed, sizes = args[0], args[1]
        dim = _given(args, kwargs, 2, "dim", 0)
        if op == "aten.split.Tensor":
            start, length = index * sizes, sizes
        else:
            start, length = sum(sizes[:index]), sizes[index]
        return Step("aten.slice.Tensor", (dim, start, min(start + length, viewed.shape[dim])))
    if index:
        raise UnsupportedError(
            f"{op}: a view operation with several results", why="truecast knows unbind and split only"
        )
    return Step(op, args[1:], kwargs)


def memory_order(alias: Alias[V], emit: Emit[V]) -> Alias[V]:
    """A root's elements as they lie in memory: the root itself, or its permutation if it is dense otherwise.

    What `as_strided` sees. Raises UnsupportedError if the memory has gaps or repeated elements.
    """
    root = alias.root
    if root.layout is None:
        return root
    shape, strides = root.value.shape, root.layout[0]
    order = tuple(sorted(range(len(shape)), key=lambda d: (-strides[d], d)))
    expected = 1
    for dim in reversed(order):
        if shape[dim] != 1 and strides[dim] != expected:
            raise UnsupportedError(
                "as_strided on memory with gaps",
                values=f"{root.value} with strides {strides}",
                why="a Graph has values, not memory: it knows the order of elements, not what lies between them",
                help="call .contiguous() before as_strided",
            )
        expected *= shape[dim]
    if order == tuple(range(len(shape))):
        return root
    permuted = tuple(shape[d] for d in order)
    value = emit("aten.permute.default", (read(root, emit), order), (), root.value.dtype, permuted)
    return root.view(Step("aten.permute.default", (order,)), value)


def _given(
    args: tuple[Argument, ...], kwargs: tuple[tuple[str, Argument], ...], index: int, name: str, default: Any
) -> Any:
    return args[index] if len(args) > index else dict(kwargs).get(name, default)


__all__ = ["IDENTITY", "Alias", "Emit", "Step", "memory_order", "read", "single_step", "write"]

"""Average and max pooling over regular windows, with their backwards, for 1 to 3 spatial dims.

A batch and channels are alike here: every rule sees x as [rows, *spatial]. Max pooling is written as one
comparison per window position over whole arrays, since eager's index rules (the first of equal elements, but the
last NaN) are no reduction monoid that a backend's windowed reduction would keep.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.division import divided
from truecast.lowering.registry import lowers


@dataclass(frozen=True)
class _Windows:
    """Regular windows over an input of `extents`, `out` of them per dim."""

    extents: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def offsets(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*map(range, self.kernel))

    def positions(self, axis: int, offset: int) -> np.ndarray[Any, Any]:
        """Where the windows' elements at `offset` stand in the input, per output; negative or beyond it in padding."""
        outputs = np.arange(self.out[axis])
        return outputs * self.stride[axis] - self.padding[axis] + offset * self.dilation[axis]

    def taken(self, x: Array, offset: Sequence[int], fill: Array) -> Array:
        """[rows, *out]: each window's element at `offset`, `fill` in padding."""
        edges, starts, limits = [(0, 0, 0)], [0], [x.shape[0]]
        for axis, o in enumerate(offset):
            first = self.positions(axis, o)[0]
            last = self.positions(axis, o)[-1]
            low, high = max(0, -first), max(0, last + 1 - self.extents[axis])
            edges.append((int(low), int(high), 0))
            starts.append(int(first + low))
            limits.append(int(last + low + 1))
        return lax.slice(lax.pad(x, fill, edges), starts, limits, (1, *self.stride))

    def put_back(self, y: Array, offset: Sequence[int]) -> Array:
        """[rows, *extents]: each output's value where its window's element at `offset` stands, 0 elsewhere."""
        edges = [(0, 0, 0)]
        for axis, o in enumerate(offset):
            first, last = (int(self.positions(axis, o)[i]) for i in (0, -1))
            edges.append((first, self.extents[axis] - 1 - last, self.stride[axis] - 1))
        return lax.pad(y, lax.full((), 0, y.dtype), edges)

    def flat_index(self, offset: Sequence[int]) -> np.ndarray[Any, Any]:
        """[*out]: the index, into the flattened spatial dims, of each window's element at `offset`."""
        index = np.zeros(self.out, np.int64)
        for axis, o in enumerate(offset):
            shape = [1] * len(self.out)
            shape[axis] = -1
            index = index * self.extents[axis] + self.positions(axis, o).reshape(shape)
        return index

    def first_index(self) -> np.ndarray[Any, Any]:
        """[*out]: the flat index of each window's first element that isn't padding."""
        index = np.zeros(self.out, np.int64)
        for axis, dilation in enumerate(self.dilation):
            first = self.positions(axis, 0)
            first = first + -(np.minimum(first, 0) // dilation) * dilation
            shape = [1] * len(self.out)
            shape[axis] = -1
            index = index * self.extents[axis] + first.reshape(shape)
        return index


def _windows(
    ctx: Context,
    shape: Sequence[int],
    out: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1,),
) -> _Windows:
    rank = 3 if "3d" in ctx.node.op else 1 if "1d" in ctx.node.op else 2

    def full(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values) * (rank if len(values) == 1 else 1)

    return _Windows(
        tuple(shape[-rank:]),
        tuple(out[-rank:]),
        full(kernel),
        full(stride or kernel),
        full(padding),
        full(dilation),
    )


def _rows(x: Array, spatial: Sequence[int]) -> Array:
    """[..., *spatial] -> [rows, *spatial]."""
    return x.reshape(math.prod(x.shape[: x.ndim - len(spatial)]), *spatial)


# ---- max ---------------------------------------------------------------------------------------------------------


def lowest(dtype: Any) -> Any:
    """The number below all others of a dtype."""
    return -math.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


@lowers("max_pool2d_with_indices max_pool3d_with_indices")
def _max_pool(
    ctx: Context,
    self: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Array, Array]:
    windows = _windows(ctx, self.shape, ctx.shape, kernel_size, stride, padding, dilation)
    rows = _rows(self, windows.extents)
    fill = ctx.constant(lowest(self.dtype), rows)
    best = lax.full((rows.shape[0], *windows.out), lowest(self.dtype), rows.dtype)
    index = jnp.broadcast_to(jnp.asarray(windows.first_index(), "int64"), best.shape)
    for offset in windows.offsets():
        taken = windows.taken(rows, offset, fill)
        better = (taken > best) | (taken != taken)
        best = jnp.where(better, taken, best)
        index = jnp.where(better, jnp.asarray(windows.flat_index(offset), "int64"), index)
    return best.reshape(ctx.shape), index.reshape(ctx.shape)


@lowers("max_pool2d_with_indices_backward max_pool3d_with_indices_backward")
def _max_pool_backward(
    ctx: Context,
    grad_output: Array,
    self: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Array,
) -> Array:
    windows = _windows(ctx, self.shape, grad_output.shape, kernel_size, stride, padding, dilation)
    grad = ctx.accumulated(_rows(grad_output, windows.out))
    chosen = _rows(indices, windows.out)
    total = ctx.fill(0, ctx.accumulated(_rows(self, windows.extents)))
    for offset in windows.offsets():
        here = chosen == jnp.asarray(windows.flat_index(offset), "int64")
        # An index that stands in padding for one output may be a true one for another: mask by position as well.
        inside = _inside(windows, offset)
        total = ctx.add(total, windows.put_back(jnp.where(here & inside, grad, ctx.fill(0, grad)), offset))
    return total.reshape(self.shape)


def _inside(windows: _Windows, offset: Sequence[int]) -> np.ndarray[Any, Any]:
    """[*out]: whether each window's element at `offset` is an element of the input."""
    inside = np.ones(windows.out, bool)
    for axis, o in enumerate(offset):
        position = windows.positions(axis, o)
        shape = [1] * len(windows.out)
        shape[axis] = -1
        inside &= ((position >= 0) & (position < windows.extents[axis])).reshape(shape)
    return inside


# ---- average -----------------------------------------------------------------------------------------------------


def _divisor(windows: _Windows, count_include_pad: bool, divisor_override: int | None) -> np.ndarray[Any, Any]:
    """[*out]: by what each window's sum is divided. Padding counts, but not what ceil_mode adds beyond it."""
    divisor = np.ones(windows.out, np.int64)
    if divisor_override:
        return divisor * divisor_override
    for axis, extent in enumerate(windows.extents):
        start = windows.positions(axis, 0)
        end = np.minimum(start + windows.kernel[axis], extent + windows.padding[axis])
        if not count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, extent)
        shape = [1] * len(windows.out)
        shape[axis] = -1
        divisor = divisor * (end - start).reshape(shape)
    return divisor


def _divided(ctx: Context, x: Array, divisor: np.ndarray[Any, Any]) -> Array:
    return divided(x, jnp.broadcast_to(jnp.asarray(divisor.astype(x.dtype)), x.shape))


@lowers("avg_pool1d avg_pool2d avg_pool3d")
def _avg_pool(
    ctx: Context,
    self: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    windows = _windows(ctx, self.shape, ctx.shape, kernel_size, stride, padding)
    rows = ctx.accumulated(_rows(self, windows.extents))
    edges = []
    for axis, extent in enumerate(windows.extents):
        reach = (windows.out[axis] - 1) * windows.stride[axis] + windows.kernel[axis]
        edges.append((windows.padding[axis], max(0, reach - extent - windows.padding[axis])))
    total = lax.reduce_window(
        rows,
        ctx.constant(0, rows),
        ctx.add,
        (1, *windows.kernel),
        (1, *windows.stride),
        ((0, 0), *edges),
    )
    return _divided(ctx, total, _divisor(windows, count_include_pad, divisor_override)).reshape(ctx.shape)


@lowers("avg_pool2d_backward avg_pool3d_backward")
def _avg_pool_backward(
    ctx: Context,
    grad_output: Array,
    self: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    windows = _windows(ctx, self.shape, grad_output.shape, kernel_size, stride, padding)
    grad = ctx.accumulated(_rows(grad_output, windows.out))
    share = _divided(ctx, grad, _divisor(windows, count_include_pad, divisor_override))
    edges = [(0, 0, 0)]
    for axis, extent in enumerate(windows.extents):
        low = windows.kernel[axis] - 1 - windows.padding[axis]
        dilated = (windows.out[axis] - 1) * windows.stride[axis] + 1
        edges.append((low, extent + windows.kernel[axis] - 1 - dilated - low, windows.stride[axis] - 1))
    spread = lax.pad(share, ctx.constant(0, share), edges)
    ones = (1,) * (1 + len(windows.extents))
    total = lax.reduce_window(spread, ctx.constant(0, spread), ctx.add, (1, *windows.kernel), ones, "VALID")
    return total.reshape(self.shape)

"""Convolutions of 1 to 3 spatial dims, transposed ones, and their backwards, for every group and dilation.

All of them are three maps of one bilinear form (x: the wide side, y: the strided side, w: the kernel):
`_correlate` (x, w) -> y, `_spread` (y, w) -> x, `_kernel_gradient` (x, y) -> w. A transposed convolution is
`_spread`, with the same kernel layout [y channels, x channels / groups, window].

Three forms avoid slow paths that were measured on XLA:CPU (jaxlib 0.10.2, two cores): a window that is a patch
(stride == kernel, no padding) is a matrix product, 0.5 ms where the dilated input gradient takes 69; the kernel
gradient is one matrix product per window position, 1 ms where the grouped convolution form takes 99; and a
depthwise convolution is one elementwise product per window position.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers

# Beyond so many window positions the kernel gradient is one convolution: a program of 49 products and more costs
# compile time, and large windows are where the backend's convolution is at its best.
_MOST_POSITIONS = 32


@dataclass(frozen=True)
class _Window:
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def spatial(self) -> tuple[int, ...]:
        return tuple(range(2, 2 + self.rank))

    @property
    def reach(self) -> tuple[int, ...]:
        """Distance between the first and the last element that a window touches, per dim."""
        return tuple(d * (k - 1) for d, k in zip(self.dilation, self.kernel, strict=True))

    def is_patch(self) -> bool:
        """Windows that tile the input, each element in at most one of them."""
        plain = self.groups == 1 and not any(self.padding) and all(d == 1 for d in self.dilation)
        return plain and self.kernel == self.stride and math.prod(self.kernel) > 1

    def dimension_numbers(self) -> tuple[str, str, str]:
        letters = "DHW"[3 - self.rank :]
        return f"NC{letters}", f"OI{letters}", f"NC{letters}"


def _window(
    kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> _Window:
    def full(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values) * (len(kernel) if len(values) == 1 else 1)

    return _Window(tuple(kernel), full(stride), full(padding), full(dilation), groups)


def _correlate(ctx: Context, x: Array, w: Array, window: _Window, out: Sequence[int]) -> Array:
    """x [N, I, ...], w [O, I / groups, ...] -> [N, O, *out]: the first `out` windows, where more of them fit (into
    the gradient of a transposed convolution whose output_padding is a stride or more)."""
    if window.is_patch():
        patches = _patches(x, window, out)
        taps = tuple(range(1, 2 + window.rank))
        product = ctx.dot(patches, w, ((1, *range(2 + window.rank, 2 + 2 * window.rank)), taps))
        return _move_last_to_channels(product)
    if _is_depthwise(ctx, x, w, window):
        return _correlate_depthwise(ctx, x, w, window, out)
    y = ctx.convolve(
        x,
        w,
        window_strides=window.stride,
        padding=[(p, p) for p in window.padding],
        rhs_dilation=window.dilation,
        dimension_numbers=window.dimension_numbers(),
        feature_group_count=window.groups,
    )
    return lax.slice(y, (0,) * y.ndim, (*y.shape[:2], *out))


def _spread(ctx: Context, y: Array, w: Array, window: _Window, extents: Sequence[int]) -> Array:
    """y [N, O, ...], w [O, I / groups, ...] -> [N, I, *extents]: each y adds its kernel's multiple to its window."""
    if window.is_patch():
        product = ctx.dot(y, w, ((1,), (0,)))  # [N, *out, I, *kernel]
        return _unpatch(product, window, y.shape[2:], extents)
    if _is_depthwise(ctx, y, w, window):
        return _spread_depthwise(ctx, y, w, window, extents)
    swapped = _swap_channels(lax.rev(w, window.spatial), window.groups)
    padding = []
    for axis, extent in enumerate(extents):
        low = window.reach[axis] - window.padding[axis]
        dilated = (y.shape[2 + axis] - 1) * window.stride[axis] + 1
        padding.append((low, extent - dilated - low + window.reach[axis]))
    return ctx.convolve(
        y,
        swapped,
        window_strides=(1,) * window.rank,
        padding=padding,
        lhs_dilation=window.stride,
        rhs_dilation=window.dilation,
        dimension_numbers=window.dimension_numbers(),
        feature_group_count=window.groups,
    )


def _kernel_gradient(ctx: Context, x: Array, y: Array, window: _Window) -> Array:
    """x [N, I, ...], y [N, O, ...] -> [O, I / groups, *kernel]: the sum over batch and positions of x times y."""
    if math.prod(window.kernel) > _MOST_POSITIONS and window.groups == 1:
        return _kernel_gradient_by_convolution(ctx, x, y, window)
    groups, out = window.groups, y.shape[2:]
    padded = lax.pad(x, ctx.constant(0, x), [(0, 0, 0), (0, 0, 0), *_padding_that_covers(x.shape[2:], out, window)])
    grouped_y = y.reshape(y.shape[0], groups, -1, *out)
    positions = (0, *range(3, 3 + window.rank))
    products = []
    for offset in itertools.product(*map(range, window.kernel)):
        taken = _taken(padded, window, offset, out).reshape(x.shape[0], groups, -1, *out)
        products.append(ctx.dot(grouped_y, taken, (positions, positions), ((1,), (1,))))  # [groups, O/g, I/g]
    stacked = lax.concatenate([p[..., None] for p in products], dimension=3)
    return stacked.reshape(y.shape[1], x.shape[1] // groups, *window.kernel)


def _taken(padded: Array, window: _Window, offset: Sequence[int], out: Sequence[int]) -> Array:
    """[N, C, *out]: each window's element at `offset`."""
    starts = [d * o for d, o in zip(window.dilation, offset, strict=True)]
    limits = [o + (n - 1) * s + 1 for o, n, s in zip(starts, out, window.stride, strict=True)]
    return lax.slice(padded, (0, 0, *starts), (*padded.shape[:2], *limits), (1, 1, *window.stride))


def _is_depthwise(ctx: Context, operand: Array, w: Array, window: _Window) -> bool:
    """One input channel per group, and an algorithm under which a product is one exact or float32 multiplication."""
    one_pass = ctx.decision.algorithm in ("", "f32_f32_f32") or operand.dtype == "bfloat16"
    shaped = window.groups > 1 and w.shape[1] == 1 and math.prod(window.kernel) <= _MOST_POSITIONS
    return shaped and one_pass


def _tap(ctx: Context, w: Array, offset: Sequence[int]) -> Array:
    """[1, O, 1, ..]: a depthwise kernel's weights at one window position."""
    return ctx.accumulated(w[(slice(None), 0, *offset)]).reshape(1, -1, *(1,) * len(offset))


def _correlate_depthwise(ctx: Context, x: Array, w: Array, window: _Window, out: Sequence[int]) -> Array:
    edges = [(0, 0, 0), (0, 0, 0), *_padding_that_covers(x.shape[2:], out, window)]
    wide = ctx.accumulated(x)
    padded = jnp.repeat(lax.pad(wide, ctx.constant(0, wide), edges), w.shape[0] // x.shape[1], axis=1)
    terms = [
        _taken(padded, window, offset, out) * _tap(ctx, w, offset)
        for offset in itertools.product(*map(range, window.kernel))
    ]
    return functools.reduce(ctx.add, terms)


def _spread_depthwise(ctx: Context, y: Array, w: Array, window: _Window, extents: Sequence[int]) -> Array:
    wide, out = ctx.accumulated(y), y.shape[2:]
    terms = []
    for offset in itertools.product(*map(range, window.kernel)):
        term = wide * _tap(ctx, w, offset)
        per_channel = term.reshape(y.shape[0], window.groups, -1, *out)
        edges = [(0, 0, 0), (0, 0, 0)]
        for axis, extent in enumerate(extents):
            first = offset[axis] * window.dilation[axis] - window.padding[axis]
            last = first + (out[axis] - 1) * window.stride[axis]
            edges.append((first, extent - 1 - last, window.stride[axis] - 1))
        terms.append(lax.pad(ctx.sum(per_channel, (2,)), ctx.constant(0, wide), edges))
    return functools.reduce(ctx.add, terms)


def _kernel_gradient_by_convolution(ctx: Context, x: Array, y: Array, window: _Window) -> Array:
    # Channels play the batch and the batch plays the channels: x [I, N, ...] * y [O, N, ...] -> [I, O, *kernel].
    padding = [(low, high) for low, high, _ in _padding_that_covers(x.shape[2:], y.shape[2:], window)]
    gradient = ctx.convolve(
        x.swapaxes(0, 1),
        y.swapaxes(0, 1),
        window_strides=window.dilation,
        padding=padding,
        rhs_dilation=window.stride,
        dimension_numbers=window.dimension_numbers(),
    )
    return gradient.swapaxes(0, 1)


def _padding_that_covers(extents: Sequence[int], out: Sequence[int], window: _Window) -> list[tuple[int, int, int]]:
    """Padding (or, negative, cropping) to exactly the elements that some window touches."""
    rows = []
    for axis, (extent, count) in enumerate(zip(extents, out, strict=True)):
        touched = (count - 1) * window.stride[axis] + window.reach[axis] + 1
        low = window.padding[axis]
        rows.append((low, touched - extent - low, 0))
    return rows


def _patches(x: Array, window: _Window, out: Sequence[int]) -> Array:
    """x [N, C, ...] -> [N, C, *out, *kernel], its elements regrouped; what no whole window covers is dropped."""
    covered = [n * k for n, k in zip(out, window.kernel, strict=True)]
    x = lax.slice(x, (0,) * x.ndim, (*x.shape[:2], *covered))
    pairs = [extent for n, k in zip(out, window.kernel, strict=True) for extent in (n, k)]
    x = x.reshape(*x.shape[:2], *pairs)
    rank = window.rank
    return lax.transpose(x, (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)))


def _unpatch(product: Array, window: _Window, out: Sequence[int], extents: Sequence[int]) -> Array:
    """[N, *out, C, *kernel] -> [N, C, *extents], zero where no window reaches."""
    rank = window.rank
    order = [0, 1 + rank]
    for axis in range(rank):
        order += [1 + axis, 2 + rank + axis]
    covered = [n * k for n, k in zip(out, window.kernel, strict=True)]
    x = lax.transpose(product, order).reshape(product.shape[0], product.shape[1 + rank], *covered)
    rest = [(0, extent - c, 0) for extent, c in zip(extents, covered, strict=True)]
    return lax.pad(x, lax.full((), 0, x.dtype), [(0, 0, 0), (0, 0, 0), *rest])


def _move_last_to_channels(x: Array) -> Array:
    return lax.transpose(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def _swap_channels(w: Array, groups: int) -> Array:
    """[O, I / groups, ...] -> [I, O / groups, ...], within each group."""
    grouped = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    return grouped.reshape(groups * w.shape[1], w.shape[0] // groups, *w.shape[2:])


def _with_bias(ctx: Context, y: Array, bias: Array | None) -> Array:
    if bias is None:
        return y
    return y + ctx.accumulated(bias).reshape(1, -1, *(1,) * (y.ndim - 2))


@lowers("convolution convolution_overrideable _convolution")
def _convolution(
    ctx: Context,
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    **_: Any,
) -> Array:
    if 0 in ctx.shape:  # PyTorch counts no channels in a result of none, whatever the weight's are
        return lax.full(ctx.shape, 0, input.dtype)
    window = _window(weight.shape[2:], stride, padding, dilation, groups)
    y = (
        _spread(ctx, input, weight, window, ctx.shape[2:])
        if transposed
        else _correlate(ctx, input, weight, window, ctx.shape[2:])
    )
    return _with_bias(ctx, y, bias)


@lowers("convolution_backward convolution_backward_overrideable")
def _convolution_backward(
    ctx: Context,
    grad_output: Array,
    input: Array,
    weight: Array,
    bias_sizes: Sequence[int] | None = None,
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    dilation: Sequence[int] = (),
    transposed: bool = False,
    output_padding: Sequence[int] = (),
    groups: int = 1,
    output_mask: Sequence[bool] = (),
) -> tuple[Array | None, ...]:
    if 0 in grad_output.shape:  # sums of nothing
        shapes = (input.shape, weight.shape, bias_sizes)
        return tuple(
            lax.full(tuple(shape), 0, input.dtype) if wanted and shape is not None else None
            for wanted, shape in zip(ctx.wanted, shapes, strict=True)
        )
    window = _window(weight.shape[2:], stride, padding, dilation, groups)
    grad_input = grad_weight = grad_bias = None
    if ctx.wanted[0]:
        grad_input = (
            _correlate(ctx, grad_output, weight, window, input.shape[2:])
            if transposed
            else _spread(ctx, grad_output, weight, window, input.shape[2:])
        )
    if ctx.wanted[1]:
        wide, strided = (grad_output, input) if transposed else (input, grad_output)
        grad_weight = _kernel_gradient(ctx, wide, strided, window)
    if ctx.wanted[2]:
        grad_bias = ctx.sum(grad_output, (0, *window.spatial))
    return grad_input, grad_weight, grad_bias

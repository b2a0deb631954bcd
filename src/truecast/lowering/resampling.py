"""Resampling to another size: nearest, linear, cubic, the last two and Lanczos with antialiasing; their backwards.

Each is one linear map per spatial axis (taps.py); the tables below are ATen's index arithmetic (UpSample.h,
UpSampleKernel.cpp), in its opmath type: float32 for anything but float64, since a source position on the edge
between two pixels is decided by its rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from truecast.lowering.context import Array, Context
from truecast.lowering.registry import register
from truecast.lowering.taps import Taps

# (extent, outputs, align_corners, scale factor or None, float type) -> the taps of one axis.
Table = Callable[[int, int, bool, "float | None", Any], Taps]


def _scale(extent: int, outputs: int, align_corners: bool, factor: float | None, real: Any) -> Any:
    """Input pixels per output pixel."""
    if align_corners:
        return real(extent - 1) / real(outputs - 1) if outputs > 1 else real(0)
    if factor is not None and factor > 0:
        return real(1.0 / factor)
    return real(extent) / real(outputs)


def _source(scale: Any, output: int, align_corners: bool, real: Any) -> Any:
    if align_corners:
        return scale * real(output)
    return scale * (real(output) + real(0.5)) - real(0.5)


def _nearest(shift: float) -> Table:
    def table(extent: int, outputs: int, align_corners: bool, factor: float | None, real: Any) -> Taps:
        scale = _scale(extent, outputs, False, factor, real)
        rows = []
        for output in range(outputs):
            position = math.floor((real(output) + real(shift)) * scale)
            if not shift and outputs == extent:
                position = output
            elif not shift and outputs == 2 * extent:
                position = output // 2
            rows.append([(min(position, extent - 1), 1.0)])
        return Taps.of(rows, extent)

    return table


def _linear(extent: int, outputs: int, align_corners: bool, factor: float | None, real: Any) -> Taps:
    if outputs == extent:
        return Taps.of([[(i, 1.0)] for i in range(extent)], extent)
    scale = _scale(extent, outputs, align_corners, factor, real)
    rows = []
    for output in range(outputs):
        source = max(_source(scale, output, align_corners, real), real(0))
        first = min(math.floor(source), extent - 1)
        second = min(first + 1, extent - 1)
        part = min(max(source - real(first), real(0)), real(1))
        rows.append([(first, float(real(1) - part)), (second, float(part))])
    return Taps.of(rows, extent)


def _cubic_weights(t: Any, a: float, real: Any) -> list[float]:
    """Keys' cubic convolution at distances 1 + t, t, 1 - t, 2 - t."""

    def near(x: Any) -> Any:
        return ((real(a + 2) * x - real(a + 3)) * x) * x + real(1)

    def far(x: Any) -> Any:
        return ((real(a) * x - real(5 * a)) * x + real(8 * a)) * x - real(4 * a)

    one = real(1)
    return [float(w) for w in (far(t + one), near(t), near(one - t), far(one - t + one))]


def _cubic(extent: int, outputs: int, align_corners: bool, factor: float | None, real: Any) -> Taps:
    scale = _scale(extent, outputs, align_corners, factor, real)
    rows = []
    for output in range(outputs):
        source = _source(scale, output, align_corners, real)
        first = min(math.floor(source), extent - 1)
        part = min(max(source - real(first), real(0)), real(1))
        places = [min(max(first - 1 + j, 0), extent - 1) for j in range(4)]
        rows.append(list(zip(places, _cubic_weights(part, -0.75, real), strict=True)))
    return Taps.of(rows, extent)


def _triangle(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _keys(x: float) -> float:
    x, a = abs(x), -0.5
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((x - 5) * x + 8) * x * a - 4 * a if x < 2 else 0.0


def _lanczos(x: float) -> float:
    return float(np.sinc(x) * np.sinc(x / 3)) if abs(x) < 3 else 0.0


def _antialiased(kernel: Callable[[float], float], width: int) -> Table:
    def table(extent: int, outputs: int, align_corners: bool, factor: float | None, real: Any) -> Taps:
        scale = _scale(extent, outputs, align_corners, factor, real)
        support = real(width / 2) * scale if scale >= 1 else real(width / 2)
        inverse = real(1) / scale if scale >= 1 else real(1)
        rows = []
        for output in range(outputs):
            center = scale * (real(output) + real(0.5))
            low = max(int(center - support + real(0.5)), 0)
            high = min(int(center + support + real(0.5)), extent)
            weights = [real(kernel(float((real(j) - center + real(0.5)) * inverse))) for j in range(low, high)]
            total = sum(weights)
            rows.append([(j, float(w / total)) for j, w in zip(range(low, high), weights, strict=True)])
        return Taps.of(rows, extent)

    return table


def _tables(
    table: Table,
    spatial: Sequence[int],
    out: Sequence[int],
    align_corners: bool,
    scales: dict[str, Any],
    real: Any,
) -> list[Taps]:
    """One table per spatial axis. The scale factors are called scales, or scales_d, scales_h, scales_w, or one list."""
    if scales.get("scale_factors") is not None:
        factors: list[Any] = list(scales["scale_factors"])
    elif len(spatial) == 1:
        factors = [scales.get("scales")]
    else:
        factors = [scales.get(f"scales_{axis}") for axis in "dhw"[3 - len(spatial) :]]
    sizes = zip(spatial, out, factors, strict=True)
    return [table(extent, outputs, align_corners, factor, real) for extent, outputs, factor in sizes]


def _real(x: Array) -> Any:
    return np.float64 if x.dtype == np.float64 else np.float32


def _register(name: str, table: Table) -> None:
    def forward(
        ctx: Context,
        self: Array | None = None,
        output_size: Any = None,
        align_corners: bool = False,
        input: Array | None = None,
        **scales: Any,
    ) -> Array:
        x = self if input is None else input
        assert x is not None
        if table not in _EXACT and not ctx.first.dtype.is_inexact:
            ctx.unsupported(f"of {ctx.first.dtype}", help="convert to a floating dtype first")
        tables = _tables(table, x.shape[2:], ctx.shape[2:], align_corners, scales, _real(x))
        for axis, taps in reversed(list(enumerate(tables))):
            x = taps.apply(ctx, x, 2 + axis)
        return x

    def backward(
        ctx: Context,
        grad_output: Array,
        output_size: Any,
        input_size: Sequence[int],
        align_corners: bool = False,
        **scales: Any,
    ) -> Array:
        out = grad_output.shape[2:]
        tables = _tables(table, input_size[2:], out, align_corners, scales, _real(grad_output))
        grad = ctx.accumulated(grad_output)
        for axis, taps in enumerate(tables):
            grad = taps.turned().apply(ctx, grad, 2 + axis)
        return grad

    register(name, forward)
    register(f"{name}_backward", backward)


_NEAREST, _NEAREST_EXACT = _nearest(0.0), _nearest(0.5)
_EXACT = (_NEAREST, _NEAREST_EXACT)  # copies: they take any dtype
for _rank in (1, 2, 3):
    _register(f"upsample_nearest{_rank}d", _NEAREST)
    _register(f"_upsample_nearest_exact{_rank}d", _NEAREST_EXACT)
_register("upsample_linear1d", _linear)
_register("upsample_bilinear2d", _linear)
_register("upsample_trilinear3d", _linear)
_register("upsample_bicubic2d", _cubic)
_register("_upsample_bilinear2d_aa", _antialiased(_triangle, 2))
_register("_upsample_bicubic2d_aa", _antialiased(_keys, 4))
_register("_upsample_lanczos2d_aa", _antialiased(_lanczos, 6))

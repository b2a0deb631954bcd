"""The error against depth as a picture: the curves as data, an SVG for the page, and a PNG by matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truecast.diagnose.drift import Measurements
from truecast.errors import UsageError
from truecast.files import appearing
from truecast.report.page import fragment

WIDTH, HEIGHT = 960, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 56
_MOST_POINTS = 2000


@dataclass(frozen=True)
class Curve:
    """kind: "a", "b" or "honest". points: depth and error; only errors above zero, which a logarithm has."""

    kind: str
    name: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Mark:
    """Where a block begins."""

    depth: int
    name: str


def curves(measured: Measurements) -> tuple[Curve, ...]:
    """The error (rms) of each value against its place in the program; of very many, the largest of each stretch."""
    stride = -(-len(measured.nodes) // _MOST_POINTS)
    found = []
    for kind, name in (("honest", "honest rounding"), ("a", f"A: {measured.a}"), ("b", f"B: {measured.b}")):
        errors = [(n.index, getattr(n, kind).rms) for n in measured.nodes]
        kept = [max(errors[i : i + stride], key=lambda p: p[1]) for i in range(0, len(errors), stride or 1)]
        found.append(Curve(kind, name, tuple((x, y) for x, y in kept if y > 0 and math.isfinite(y))))
    return tuple(found)


def marks(measured: Measurements) -> tuple[Mark, ...]:
    """The first value of each block (layers.0, layers.1, ...)."""
    first: dict[str, int] = {}
    blocks = {block.module: block for block in measured.blocks()}
    for node in measured.nodes:
        for path in blocks:
            if node.site.phase == "forward" and f"{node.site.module}.".startswith(f"{path}."):
                first.setdefault(path, node.index)
    return tuple(Mark(depth, path) for path, depth in first.items())


def svg(measured: Measurements) -> str:
    """The picture as an SVG element; without any error, a line that says so."""
    drawn = curves(measured)
    errors = [y for curve in drawn for _, y in curve.points]
    if not errors:
        return fragment("<p>No value has an error: both policies compute what the reference does.</p>")
    low, high = math.floor(math.log10(min(errors))), math.ceil(math.log10(max(errors)))
    high = max(high, low + 1)
    last = max(node.index for node in measured.nodes) or 1

    def x(depth: float) -> float:
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * depth / last, 1)

    def y(error: float) -> float:
        return round(_TOP + (HEIGHT - _TOP - _BOTTOM) * (high - math.log10(error)) / (high - low), 1)

    every = max(1, (high - low) // 8)
    return fragment(
        _SVG,
        width=WIDTH,
        height=HEIGHT,
        left=_LEFT,
        right=WIDTH - _RIGHT,
        top=_TOP,
        bottom=HEIGHT - _BOTTOM,
        decades=[(f"1e{d}", y(10.0**d)) for d in range(low, high + 1, every)],
        marks=[(mark.name, mark.name.rpartition(".")[2], x(mark.depth)) for mark in _apart(marks(measured), x)],
        curves=[(c.kind, c.name, " ".join(f"{x(d)},{y(e)}" for d, e in c.points)) for c in drawn],
    )


def _apart(found: Sequence[Mark], x: Any) -> list[Mark]:
    """Marks that leave room for their names."""
    kept: list[Mark] = []
    for mark in found:
        if not kept or x(mark.depth) - x(kept[-1].depth) >= 24:
            kept.append(mark)
    return kept


_SVG = """\
<svg viewBox="0 0 {{ width }} {{ height }}" role="img" aria-label="error against depth" class="drift">
{% for name, y in decades %}
<line x1="{{ left }}" x2="{{ right }}" y1="{{ y }}" y2="{{ y }}" class="grid"/>
<text x="{{ left - 8 }}" y="{{ y + 4 }}" text-anchor="end">{{ name }}</text>
{% endfor %}
{% for name, short, x in marks %}
<line x1="{{ x }}" x2="{{ x }}" y1="{{ top }}" y2="{{ bottom }}" class="grid"><title>{{ name }}</title></line>
<text x="{{ x }}" y="{{ bottom + 16 }}" text-anchor="middle">{{ short }}</text>
{% endfor %}
{% for kind, name, points in curves %}
<polyline points="{{ points }}" class="curve {{ kind }}"><title>{{ name }}</title></polyline>
<text x="{{ left + 220 * loop.index0 }}" y="{{ height - 12 }}" class="{{ kind }}">&#9473; {{ name }}</text>
{% endfor %}
</svg>
"""

STYLE = """\
svg.drift { width: 100%; height: auto; font-size: 12px; }
svg.drift text { fill: currentColor; }
svg.drift .grid { stroke: currentColor; stroke-opacity: 0.15; }
svg.drift .curve { fill: none; stroke-width: 1.5; }
svg.drift .curve.honest { stroke: #888; }
svg.drift .curve.a { stroke: #2b7bba; }
svg.drift .curve.b { stroke: #d9541e; }
svg.drift text.honest { fill: #888; }
svg.drift text.a { fill: #2b7bba; }
svg.drift text.b { fill: #d9541e; }
"""


def write(measured: Measurements, path: Path) -> None:
    """The picture as a PNG file, which appears whole or not at all. Raises UsageError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "a PNG needs matplotlib, which is not installed",
            why=str(error),
            help="pip install 'truecast[plot]'; the HTML page has the same picture without it",
        ) from error
    colors = {"honest": "#888888", "a": "#2b7bba", "b": "#d9541e"}
    figure = Figure(figsize=(9.6, 4), layout="constrained")
    axes = figure.subplots()
    for curve in curves(measured):
        if curve.points:
            axes.plot(*zip(*curve.points, strict=True), color=colors[curve.kind], label=curve.name, linewidth=1.2)
    for mark in marks(measured):
        axes.axvline(mark.depth, color="#00000022", linewidth=0.8)
    if axes.lines:
        axes.set_yscale("log")
        axes.legend()
    axes.set_xlabel(f"depth: nodes of {measured.program} in program order")
    axes.set_ylabel(f"error against {measured.reference}")
    try:
        with appearing(path) as temporary:
            figure.savefig(temporary, format="png", dpi=150)
    except OSError as error:
        raise UsageError("can't write the picture", where=path, why=error.strerror or str(error)) from error

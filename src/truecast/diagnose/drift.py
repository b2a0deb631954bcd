"""How far the values of a program under two policies are from a reference: the arithmetic, on plain NumPy arrays, and
what it gives as data.

It knows neither torch nor jax: `api/comparing.py` makes the runs and hands in arrays, `report/drift.py` shows the
result. All numbers here are defined in docs/compare.md.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truecast.dtypes import DType, real_of
from truecast.graph import Node
from truecast.ops import lookup
from truecast.ops.operands import bound
from truecast.sites import Site

# Quantiles of a larger array are those of every n-th element, so many at most; norms, maxima and counts are of all.
SAMPLE = 1 << 20


@dataclass(frozen=True, slots=True)
class Error:
    """The error of an array against its reference.

    median, p99, largest: of |x - r| / |r| over the elements. ulps_...: of |x - r| in units in the last place of the
    value's own dtype at r. rms: the norm of x - r over the norm of r. strays: elements of which only one of x and r is
    finite, or which are different non-finite numbers; all else leaves them out.
    """

    median: float
    p99: float
    largest: float
    ulps_median: float
    ulps_p99: float
    ulps_largest: float
    rms: float
    strays: int = 0


@dataclass(frozen=True, slots=True)
class NodeDrift:
    """One node's result under both policies, A and B, and as honest rounding has it.

    differing: the share of elements in which A and B differ; apart: the norm of A - B over the norm of the reference.
    """

    name: str
    op: str
    index: int
    site: Site
    dtype: DType
    shape: tuple[int, ...]
    a: Error
    b: Error
    honest: Error
    differing: float
    apart: float

    @property
    def ratios(self) -> tuple[float | None, float | None]:
        """The error of A, and of B, over the honest one; None where that is zero."""
        return ratio(self.a, self.honest), ratio(self.b, self.honest)


@dataclass(frozen=True, slots=True)
class Decision:
    """A discrete result (the largest, an order, a comparison) that follows from floating operands, and which share of
    it differs: between A and B, and of A, B and the honest run against the reference."""

    name: str
    op: str
    index: int
    site: Site
    elements: int
    between: float
    a: float
    b: float
    honest: float


@dataclass(frozen=True, slots=True)
class NotComputed:
    """A node that the reference computes as the program declares it, and why."""

    name: str
    op: str
    site: Site
    why: str


@dataclass(frozen=True, slots=True)
class Step:
    """One training step: its first result of one element (the loss; None without one), by run, and how far the
    parameters have moved from the reference's: the norm of the difference of all of them over the norm of the
    reference's own way from the start."""

    loss_a: float | None
    loss_b: float | None
    loss_reference: float | None
    loss_honest: float | None
    parameters_a: float
    parameters_b: float
    parameters_honest: float


@dataclass(frozen=True, slots=True)
class ParameterDrift:
    """A parameter after the last step: the norm of its difference from the reference over that of the reference."""

    path: str
    a: float
    b: float
    honest: float


@dataclass(frozen=True, slots=True)
class Training:
    steps: tuple[Step, ...]
    parameters: tuple[ParameterDrift, ...]


@dataclass(frozen=True, slots=True)
class ModuleDrift:
    """A module, as far as one phase runs through it. output: the last value it makes that has any error (a mask or a
    count has none); worst: the value with the largest ratio of B to the honest error."""

    module: str
    phase: str
    values: int
    output: NodeDrift
    worst: NodeDrift


@dataclass(frozen=True, slots=True)
class OpDrift:
    """All values of one overload: how many, the medians of their errors (rms), of their median ULPs and of their
    ratios, and the one with the largest ratio of B."""

    op: str
    values: int
    error_a: float
    error_b: float
    ulps_a: float
    ulps_b: float
    ratio_a: float | None
    ratio_b: float | None
    worst: NodeDrift


@dataclass(frozen=True, slots=True)
class Growth:
    """How the error grows along equal blocks (layers.0, layers.1, ...): the factor from one to the next, the geometric
    mean over all; None where an error is zero."""

    blocks: str
    count: int
    a: float | None
    b: float | None
    honest: float | None


@dataclass(frozen=True)
class Measurements:
    """All that a comparison measured. a, b, reference: the names of the policies. notes: what a reader must know of
    how it was computed. results: the names of the program's own results among `nodes`."""

    program: str
    a: str
    b: str
    reference: str
    nodes: tuple[NodeDrift, ...]
    decisions: tuple[Decision, ...] = ()
    not_computed: tuple[NotComputed, ...] = ()
    results: tuple[str, ...] = ()
    training: Training | None = None
    notes: tuple[str, ...] = ()

    @property
    def first_parting(self) -> NodeDrift | Decision | None:
        """The first node, in program order, whose result under A is not the one under B."""
        parting = [n for n in self.nodes if n.differing] + [d for d in self.decisions if d.between]
        return min(parting, key=lambda n: n.index, default=None)

    def modules(self) -> tuple[ModuleDrift, ...]:
        """Every module with everything inside it, in the order in which they are first met, by phase."""
        inside: dict[tuple[str, str], list[NodeDrift]] = {}
        for node in self.nodes:
            for path in _around(node.site.module):
                inside.setdefault((path, node.site.phase), []).append(node)
        return tuple(
            ModuleDrift(path, phase, len(nodes), _output(nodes), max(nodes, key=_ratio_b))
            for (path, phase), nodes in inside.items()
        )

    def ops(self) -> tuple[OpDrift, ...]:
        """Every overload, the one with the largest ratio of B first."""
        by_op: dict[str, list[NodeDrift]] = {}
        for node in self.nodes:
            by_op.setdefault(node.op, []).append(node)
        found = []
        for op, nodes in by_op.items():
            a, b = [n.a for n in nodes], [n.b for n in nodes]
            found.append(
                OpDrift(
                    op,
                    len(nodes),
                    statistics.median_low(e.rms for e in a),
                    statistics.median_low(e.rms for e in b),
                    statistics.median_low(e.ulps_median for e in a),
                    statistics.median_low(e.ulps_median for e in b),
                    _median(n.ratios[0] for n in nodes),
                    _median(n.ratios[1] for n in nodes),
                    max(nodes, key=_ratio_b),
                )
            )
        return tuple(sorted(found, key=lambda o: (-_ratio_b(o.worst), o.op)))

    def blocks(self) -> tuple[ModuleDrift, ...]:
        """The most numbered modules (layers.0, layers.1, ...) with equal operations in the forward pass, () without."""
        ops: dict[str, list[str]] = {}
        for node in self.nodes:
            if node.site.phase == "forward":
                for path in _around(node.site.module):
                    ops.setdefault(path, []).append(node.op)
        numbered: dict[tuple[str, ...], list[ModuleDrift]] = {}
        for module in self.modules():
            parent, _, last = module.module.rpartition(".")
            if last.isdigit() and module.phase == "forward":
                numbered.setdefault((parent, *ops[module.module]), []).append(module)
        longest = max(numbered.values(), key=len, default=[])
        return tuple(longest) if len(longest) > 1 else ()

    def growth(self) -> Growth | None:
        """How the error grows from block to block; None without blocks."""
        blocks = self.blocks()
        if not blocks:
            return None
        first, last = blocks[0].output, blocks[-1].output

        def factor(start: float, end: float) -> float | None:
            return (end / start) ** (1 / (len(blocks) - 1)) if start and end and math.isfinite(end / start) else None

        return Growth(
            blocks[0].module.rpartition(".")[0] + ".*",
            len(blocks),
            factor(first.a.rms, last.a.rms),
            factor(first.b.rms, last.b.rms),
            factor(first.honest.rms, last.honest.rms),
        )


def ratio(error: Error, honest: Error) -> float | None:
    """An error over the honest one, by their rms; None where the honest error is zero."""
    return error.rms / honest.rms if honest.rms else None


def measure(values: NDArray[Any], reference: NDArray[Any], dtype: DType) -> Error:
    """The error of `values` against `reference`, both float64 (or complex128), of a value that the program declares
    as `dtype`. Where |r| is below the dtype's smallest normal number, that number stands for it."""
    values, reference = values.ravel(), reference.ravel()
    finite = np.isfinite(values) & np.isfinite(reference)
    strays = 0
    if not finite.all():
        same = (values == reference) | (np.isnan(values) & np.isnan(reference))
        strays = int(np.count_nonzero(~finite & ~same))
        values, reference = values[finite], reference[finite]
    if not values.size:
        return Error(0, 0, 0, 0, 0, 0, 0, strays)
    difference = np.abs(values - reference)
    size = np.abs(reference)
    real = real_of(dtype)
    least = 2 - (1 << (real.exponent_bits - 1))  # the exponent of the smallest normal number
    relative = difference / np.maximum(size, 2.0**least)
    # size = m * 2**e with m in [0.5, 1): its unit in the last place is 2**(e - 1 - mantissa bits).
    ulps = np.ldexp(difference, real.mantissa_bits - np.maximum(np.frexp(size)[1] - 1, least))
    return Error(*_quantiles(relative), *_quantiles(ulps), _over(difference, size), strays)


def differing(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The share of elements in which two arrays differ; a NaN equals a NaN."""
    if not a.size:
        return 0.0
    unequal = a != b
    if a.dtype.kind in "fc":
        unequal &= ~(np.isnan(a) & np.isnan(b))
    return int(np.count_nonzero(unequal)) / a.size


def apart(a: NDArray[Any], b: NDArray[Any], reference: NDArray[Any]) -> float:
    """The norm of a - b over the norm of the reference, over the elements where all three are finite."""
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(reference)
    return _over(np.abs(a[finite] - b[finite]), np.abs(reference[finite]))


def flips(node: Node, a: NDArray[Any], b: NDArray[Any]) -> float:
    """The share of a decision's elements that differ; for topk, whose order is no choice, the share of the chosen
    that the other has not chosen at all."""
    if node.op.split(".")[1] != "topk" or a.ndim == 0:
        return differing(a, b)
    a, b = (np.moveaxis(x, bound(node)["dim"], -1).reshape(-1, x.shape[bound(node)["dim"]]) for x in (a, b))
    if not a.size:
        return 0.0
    row = np.arange(len(a), dtype=np.int64)[:, None] * (int(max(a.max(), b.max())) + 1)
    return 1 - int(np.count_nonzero(np.isin(a + row, b + row))) / a.size


# What hands values on as they are: an error in its result is its operand's.
_COPIES = frozenset(("movement", "creation", "query"))


def has_error(node: Node) -> bool:
    """Whether a node's floating results are worth measuring."""
    row = lookup(node.op)
    return row is None or row.kind not in _COPIES


def decides(node: Node) -> bool:
    """Whether a node makes something discrete of floating operands: not where it only reads their bits."""
    if node.op == "aten.view.dtype":
        return False
    discrete = any(v is not None and not v.dtype.is_inexact for v in node.outputs)
    return discrete and any(v.dtype.is_inexact for v in node.inputs) and has_error(node)


def _quantiles(errors: NDArray[Any]) -> tuple[float, float, float]:
    """Median, 99th percentile and maximum. A quantile is the least element that so many are not above."""
    largest = float(errors.max())
    stride = -(-errors.size // SAMPLE)
    sample = errors[::stride]
    ranks = [math.ceil(sample.size * hundredths / 100) - 1 for hundredths in (50, 99)]
    ordered = np.partition(sample, ranks)
    return float(ordered[ranks[0]]), float(ordered[ranks[1]]), largest


def _over(difference: NDArray[Any], size: NDArray[Any]) -> float:
    """The norm of one array of magnitudes over that of another; scaled, so that squares neither overflow nor vanish."""
    largest = float(difference.max(initial=0))
    if not largest:
        return 0.0
    scale = float(size.max(initial=0))
    if not scale:
        return math.inf
    return float(np.linalg.norm(difference / largest)) / float(np.linalg.norm(size / scale)) * (largest / scale)


def _around(module: str) -> Iterator[str]:
    """A module's path and those of the modules around it, the outermost first: "" is the program itself."""
    yield ""
    parts = module.split(".") if module else []
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _output(nodes: Sequence[NodeDrift]) -> NodeDrift:
    """The last one with an error, else the last one."""
    return next((n for n in reversed(nodes) if n.a.rms or n.b.rms or n.honest.rms), nodes[-1])


def _ratio_b(node: NodeDrift) -> float:
    return node.ratios[1] or 0.0


def _median(ratios: Iterable[float | None]) -> float | None:
    known = [r for r in ratios if r is not None]
    return statistics.median_low(known) if known else None

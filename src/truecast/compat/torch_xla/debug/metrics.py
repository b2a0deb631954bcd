"""torch_xla.debug.metrics from what the device counts (`truecast.metrics()`), under torch_xla's names.

Times are not measured: a metric whose accumulator would be one has None for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from truecast.api.device import metrics
from truecast.capture.device.tape import Counters
from truecast.compat import steps
from truecast.compat.missing import attribute_of

__getattr__ = attribute_of(__name__)

# torch_xla's metric: what is counted, and what is summed over it.
_METRICS: dict[str, tuple[str, str | None]] = {
    "CompileTime": ("compiles", None),
    "ExecuteTime": ("runs", None),
    "TransferToDeviceTime": ("uploads", None),
    "TransferFromDeviceTime": ("downloads", None),
    "OutboundData": ("uploads", "bytes_up"),
    "InboundData": ("downloads", "bytes_down"),
}
_COUNTERS = {"UncachedCompile": "programs", "CachedCompile": "program_hits"}


@dataclass
class _Cleared:
    """What the counts were when they were cleared last."""

    counters: Counters
    metrics: Counters
    steps: int = 0


_cleared = _Cleared(Counters(), Counters())


def _counts() -> dict[str, int]:
    now, before = metrics(), _cleared.counters
    found = {name: getattr(now, field) - getattr(before, field) for name, field in _COUNTERS.items()}
    found["MarkStep"] = steps.marked - _cleared.steps
    for op, count in now.fallbacks.items():
        found[_fallback_name(op)] = count - before.fallbacks.get(op, 0)
    return {name: count for name, count in found.items() if count}


def _fallback_name(op: str) -> str:
    """aten.nonzero.default as torch_xla spells it: aten::nonzero."""
    namespace, name, variant = op.split(".")
    return f"{namespace}::{name}" + (f".{variant}" if variant != "default" else "")


def counter_names() -> list[str]:
    """The counters that are not zero. An operation that the CPU ran counts under its name: "aten::nonzero"."""
    return sorted(_counts())


def counter_value(name: str) -> int | None:
    """A counter's value; None for one that is zero or unknown."""
    return _counts().get(name)


def metric_names() -> list[str]:
    """The metrics that have samples."""
    return [name for name in _METRICS if metric_data(name) is not None]


def metric_data(name: str) -> tuple[int, int | None, list[tuple[float, float]]] | None:
    """(samples, their sum, []); the sum is None where it would be a time. None for a metric without samples."""
    if name not in _METRICS:
        return None
    counted, summed = _METRICS[name]
    now, before = metrics(), _cleared.metrics
    samples = getattr(now, counted) - getattr(before, counted)
    total = None if summed is None else getattr(now, summed) - getattr(before, summed)
    return (samples, total, []) if samples else None


def clear_counters() -> None:
    _cleared.counters, _cleared.steps = metrics(), steps.marked


def clear_metrics() -> None:
    _cleared.metrics = metrics()


def clear_all() -> None:
    clear_counters()
    clear_metrics()


def metrics_report() -> str:
    """Every metric and counter, as torch_xla lays them out."""
    return short_metrics_report(counter_names(), metric_names())


def short_metrics_report(counter_names: list[str] | None = None, metric_names: list[str] | None = None) -> str:
    """The named metrics and counters, those that have values."""
    lines: list[str] = []
    for name in _METRICS if metric_names is None else metric_names:
        data = metric_data(name)
        if data is not None:
            lines += [f"Metric: {name}", f"  TotalSamples: {data[0]}"]
            lines += [f"  Accumulator: {data[1]}B"] if data[1] is not None else []
    counts = _counts()
    for name in ("CachedCompile", "MarkStep") if counter_names is None else counter_names:
        if name in counts:
            lines += [f"Counter: {name}", f"  Value: {counts[name]}"]
    return "\n".join(lines) + "\n"


def executed_fallback_ops() -> list[str]:
    """The operations that the CPU ran for want of a lowering."""
    return [name for name in counter_names() if name.startswith("aten::")]

"""Many single calls in one compiled program, each beside PyTorch eager: a compile costs 50 ms, a call nothing.

The comparison is element by element: unlike tests/twin.py it grants no absolute tolerance from the result's
mean, since adversarial inputs put 1e38 beside 1e-38.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from tests.twin import EAGER, run, single_node_graph, to_numpy
from truecast import dtypes
from truecast.graph import Graph, Node, Value, map_values
from truecast.numerics.numerics import Numerics


def fast_and_slow(fast: Iterable[torch.dtype], slow: Iterable[torch.dtype]) -> list[Any]:
    """Parameters of a test over dtypes: a few in every run, the others in the whole sweep only (marked slow)."""
    return [*fast, *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in slow)]


@dataclass(frozen=True)
class Case:
    """One call. `ulps` bounds each element, in units in the last place of eager's element."""

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    ulps: float = 2
    floor: float = 0.0  # elements below this magnitude are held to its units in the last place

    def __str__(self) -> str:
        parts = [f"{a.dtype}{list(a.shape)}" if isinstance(a, torch.Tensor) else repr(a) for a in self.args]
        parts += [f"{k}={v}" for k, v in self.kwargs.items()]
        return f"{self.op}({', '.join(parts)})".replace("torch.", "")


def merged(cases: Iterable[Case]) -> tuple[Graph, list[torch.Tensor], list[tuple[Case, torch.Tensor]]]:
    """One Graph of all calls, its inputs, and each output's case with eager's result."""
    inputs, nodes, outputs, tensors, expected = [], [], [], [], []
    for number, case in enumerate(cases):
        graph, own, results = single_node_graph(case.op, *case.args, **case.kwargs)

        def renamed(value: Value, prefix: str = f"c{number}_") -> Value:
            return replace(value, name=prefix + value.name)

        node = graph.nodes[0]
        inputs += [replace(i, value=renamed(i.value)) for i in graph.inputs]
        nodes.append(
            Node(
                node.op,
                map_values(node.args, renamed),
                tuple((k, map_values(v, renamed)) for k, v in node.kwargs),
                tuple(None if v is None else renamed(v) for v in node.outputs),
            )
        )
        outputs += [replace(o, value=renamed(o.value)) for o in graph.outputs]
        tensors += own
        expected += [(case, r) for r in results]
    return Graph("batch", tuple(inputs), tuple(nodes), tuple(outputs)).verify(), tensors, expected


def differences(cases: Iterable[Case], numerics: Numerics = EAGER) -> list[str]:
    """One line per output that differs from eager in dtype, shape or value."""
    graph, tensors, expected = merged(cases)
    found = []
    for got, (case, want) in zip(run(graph, tensors, numerics), expected, strict=True):
        fault = difference(got, want, case.ulps, case.floor)
        if fault:
            found.append(f"{case}: {fault}")
    return found


def difference(got: np.ndarray, want_tensor: torch.Tensor, ulps: float, floor: float = 0.0) -> str:
    """How `got` differs from eager's tensor; "" if it does not."""
    want = to_numpy(want_tensor)
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, eager has {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, eager has {want.shape}"
    dtype = dtypes.of(want_tensor.dtype)
    if dtype.category == "complex":
        pairs = ((got.real, want.real), (got.imag, want.imag))
        size = np.abs(want.astype(np.complex128))
        faults = (
            _far(g, w, dtypes.real_of(dtype), ulps, np.maximum(np.where(np.isfinite(size), size, 0), floor))
            for g, w in pairs
        )
        return next((f for f in faults if f), "")
    if not dtype.is_inexact:
        return _report(got, want, got != want)
    return _far(got, want, dtype, ulps, np.full(want.shape, floor))


def _far(got: np.ndarray, want: np.ndarray, dtype: dtypes.DType, ulps: float, floor: np.ndarray) -> str:
    with np.errstate(invalid="ignore", over="ignore"):
        got64, want64 = got.astype(np.float64), want.astype(np.float64)
        smallest = float(ml_dtypes.finfo(dtypes.numpy_dtype(dtype)).smallest_normal)
        size = np.maximum(np.maximum(np.abs(want64), floor), smallest)
        bound = ulps * 2.0**-dtype.mantissa_bits * size
        # XLA:CPU flushes subnormals of float32 and float64 (and so of bfloat16) to zero: measured, see test_n7.
        flushed = (np.abs(want64) <= smallest) & (np.abs(got64) <= smallest) & (dtype.name != "float16")
        near = np.isfinite(want64) & np.isfinite(got64) & (np.abs(got64 - want64) <= bound)
        close = (got64 == want64) | (np.isnan(got64) & np.isnan(want64)) | near | flushed
    return _report(got, want, ~close)


def _report(got: np.ndarray, want: np.ndarray, wrong: np.ndarray) -> str:
    if not wrong.any():
        return ""
    where = np.argwhere(wrong)[:4]
    samples = ", ".join(f"{tuple(map(int, i))}: got {got[tuple(i)]}, eager {want[tuple(i)]}" for i in where)
    return f"{int(wrong.sum())} of {wrong.size} differ at {samples}"


def accepted(case: Case) -> bool:
    """Whether eager itself takes the call."""
    _, name, overload = case.op.split(".")
    try:
        getattr(getattr(torch.ops.aten, name), overload)(*case.args, **case.kwargs)
    except (RuntimeError, TypeError, IndexError, ValueError):
        return False
    return True


def check(cases: list[Case], at_least: int) -> None:
    """Asserts that every call that eager takes gives what eager gives, and that it takes `at_least` many."""
    taken = [c for c in cases if accepted(c)]
    assert len(taken) >= at_least, f"eager took only {len(taken)} of {len(cases)} calls"
    found = differences(taken)
    assert not found, "\n".join(found)

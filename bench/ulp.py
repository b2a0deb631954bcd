"""The error of every operation under every preset against float64, in units in the last place.

    python -m bench.ulp              writes docs/evidence/ulp.md (`make ulp`)
    python -m bench.ulp --only tanh  prints the rows of what has "tanh" in its name

Presets that decide alike about an operation share a program and a row: what is said of one of them holds for all.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.ulp_calls import Call, calls, long_calls, without_a_call
from truecast import dtypes
from truecast.api.comparing import FLOAT64
from truecast.capture import recorder
from truecast.diagnose import drift
from truecast.diagnose.drift import Error
from truecast.dtypes import DType
from truecast.errors import TruecastError
from truecast.graph import Graph
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import Plan, resolve
from truecast.runtime.observing import Observer

PRESETS = (
    *("eager", "cpu", "cuda", "tpu", "neuron", "torch_xla-2.9", "torch_xla-2.10"),
    *("legacy-xla-bf16", "legacy-xla-downcast-bf16"),
)
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "ulp.md"
FAMILIES = ("random", "large", "small", "cancelling", "subnormal")


@dataclass(frozen=True)
class Row:
    """One operation in one dtype as some presets compute it. errors: by family of inputs. decision: in words."""

    call: str
    kind: str
    dtype: DType
    decision: str
    presets: tuple[str, ...]
    errors: Mapping[str, Error]


def inputs(family: str, shapes: Sequence[tuple[int, ...]], dtype: torch.dtype) -> list[torch.Tensor]:
    """Tensors of one family, the same at every call.

    random: normal. large, small: magnitudes within 2**8 of the dtype's largest and smallest normal number.
    subnormal: below that. cancelling: numbers within a few units of 1, of alternating signs, so that sums and
    differences cancel. positive: uniform between 0 and 1 (for long sums, which random signs would cancel).
    """
    generator = torch.Generator().manual_seed(0)
    info = torch.finfo(dtype)
    largest, smallest = np.log2(info.max), np.log2(info.smallest_normal)
    made = []
    for number, shape in enumerate(shapes):
        normal = torch.randn(shape, generator=generator, dtype=torch.float64)
        unit = torch.rand(shape, generator=generator, dtype=torch.float64)
        signs = torch.where(normal < 0, -1.0, 1.0)
        if family == "random":
            values = normal
        elif family == "positive":
            values = unit
        elif family == "large":
            values = signs * 2 ** (largest - 1 - 7 * unit)
        elif family == "small":
            values = signs * 2 ** (smallest + 7 * unit)
        elif family == "subnormal":
            values = signs * info.smallest_normal * unit
        else:
            assert family == "cancelling", family
            steps = (8 * unit).floor() * info.eps
            alternating = torch.where(torch.arange(values_of(shape)) % 2 == 0, 1.0, -1.0).reshape(shape)
            values = (1 + steps) * (alternating if shape and shape[-1] > 1 else 1.0) * (-1) ** number
        made.append(values.to(dtype))
    return made


def values_of(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


# What a rule, or PyTorch, raises for a dtype that it can't compute in.
_REFUSALS = (TruecastError, RuntimeError, TypeError, ValueError)


def rows(
    call: Call, dtype: torch.dtype, families: Sequence[str] = FAMILIES, refused: list[str] | None = None
) -> list[Row]:
    """The call under each distinct decision of the presets, beside float64. refused: takes what can't be run, in
    words; None raises it."""
    given = {family: inputs(family, call.shapes, dtype) for family in families}
    captured = recorder.trace(call.function, tuple(given[families[0]]))
    graph = captured.graph
    names = [name for name in captured.arguments if name is not None]
    programs: dict[Any, tuple[Plan, list[str]]] = {}
    for name in PRESETS:
        plan = _plan(graph, Numerics.preset(name))
        programs.setdefault(_key(plan), (plan, []))[1].append(name)
    reference = _results(resolve(graph, FLOAT64), names, given)
    found: list[Row] = []
    for plan, presets in programs.values():
        try:
            got = _results(plan, names, given)
        except _REFUSALS as error:
            if refused is None:
                raise
            refused.append(f"{call.name} in {dtypes.of(dtype)} under {', '.join(presets)}: {_first_line(error)}")
            continue
        errors = {family: _error(graph, got[family], reference[family]) for family in families}
        known = dtypes.of(dtype)
        same = next((row for row in found if row.errors == errors), None)
        if same is None:
            found.append(Row(call.name, call.kind, known, _words(plan), tuple(presets), errors))
        else:
            found[found.index(same)] = replace(
                same, presets=(*same.presets, *presets), decision=_joined(same.decision, _words(plan))
            )
    return found


def _plan(graph: Graph, preset: Numerics) -> Plan:
    """The preset's Plan with rounding after each operation: of a single one, every preset rounds the result."""
    held = {v.dtype.name for n in graph.nodes for v in (*n.inputs, *n.outputs) if v is not None}
    rules = tuple(replace(rule, rounding="op") for rule in preset.rules)
    storage = tuple((a, b) for a, b in preset.storage if a in held)
    return resolve(graph, replace(preset, rules=rules, storage=storage, target="cpu"))


def _key(plan: Plan) -> Any:
    decided = tuple((d.compute, d.accumulate, d.algorithm) for d in plan.decisions)
    return decided, plan.numerics.storage


def _results(plan: Plan, names: Sequence[str], given: Mapping[str, Sequence[torch.Tensor]]) -> dict[str, list[Any]]:
    observer = Observer(plan, (range(len(plan.graph.nodes)),), frozenset())
    results = {}
    for family, tensors in given.items():
        observer.start(dict(zip(names, tensors, strict=True)), (0, 0))
        observer.run(0)
        results[family] = observer.outputs()
    return results


def _error(graph: Graph, got: Sequence[Any], reference: Sequence[Any]) -> Error:
    """The worst of the floating results, number by number."""
    errors = []
    for output, x, r in zip(graph.outputs, got, reference, strict=True):
        if output.value is not None and output.value.dtype.is_floating:
            exact = np.asarray(r).astype(np.float64)
            errors.append(
                drift.measure(
                    np.asarray(x).astype(np.float64), _overflown(exact, output.value.dtype), output.value.dtype
                )
            )
    if not errors:
        raise TruecastError(f"{graph.name} has no floating result")
    fields = Error.__dataclass_fields__
    return Error(*(max(getattr(e, name) for e in errors) for name in fields))


def _overflown(exact: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """What is right where the exact result is beyond the dtype's range: an infinity."""
    largest = 2.0 ** (1 << (dtype.exponent_bits - 1)) * (1 - 2.0 ** -(dtype.mantissa_bits + 2))
    return np.where(np.abs(exact) >= largest, np.copysign(np.inf, exact), exact)


def _words(plan: Plan) -> str:
    """How the first node that decides anything is computed: "float32", "bfloat16, sums in float32"."""
    decision = next((d for d in plan.decisions if d.compute is not None), None)
    if decision is None:
        return "no arithmetic"
    said = decision.algorithm or decision.compute.name  # type: ignore[union-attr]
    if decision.accumulate is not None:
        said += f", sums in {decision.accumulate}"
    held = ", ".join(f"{a} held as {b}" for a, b in plan.numerics.storage)
    return f"{said}; {held}" if held else said


def _joined(one: str, other: str) -> str:
    return one if other in one.split(" or ") else f"{one} or {other}"


# ------------------------------------------------------------------------------------------------------------- the page


def page(only: str = "") -> Iterator[str]:
    """The lines of docs/evidence/ulp.md."""
    measured: list[Row] = []
    refused: list[str] = []
    for call in calls(only):
        for dtype in DTYPES:
            try:
                measured += rows(call, dtype, refused=refused)
            except _REFUSALS as error:
                refused.append(f"{call.name} in {dtypes.of(dtype)}: {_first_line(error)}")
    long_rows: list[Row] = []
    for call in long_calls(only):
        for dtype in (torch.bfloat16, torch.float32):
            long_rows += rows(call, dtype, ("positive", "random", "cancelling"), refused)
    yield from written(measured, long_rows, refused)


def written(measured: Sequence[Row], long_rows: Sequence[Row], refused: Sequence[str]) -> Iterator[str]:
    """The page's lines."""
    yield from _head(measured)
    yield from _known()
    for kind in dict.fromkeys(row.kind for row in measured):
        yield from _table(f"## {kind.capitalize()}", [row for row in measured if row.kind == kind], FAMILIES)
    yield from _table("## Over 2^20 elements", long_rows, ("positive", "random", "cancelling"))
    if refused:
        yield from ("## Refused", "", "Where PyTorch itself or a lowering rule refuses the dtype:", "")
        yield from (f"- {line}" for line in refused)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _head(measured: Sequence[Row]) -> Iterator[str]:
    counted = Counter(row.kind for row in measured)
    named = len({row.call for row in measured})
    yield "# Per-op truth: the error of every operation under every preset, against float64"
    yield ""
    yield "Made by `make ulp` (`python -m bench.ulp`); a test repeats a sample of it (`tests/ops/test_ulp.py`)."
    yield ""
    by_kind = ", ".join(f"{count} {kind}" for kind, count in counted.items())
    yield f"{named} operations in bfloat16, float16 and float32, {len(measured)} rows: {by_kind}."
    yield from _EXPLAINED
    yield ""
    left = without_a_call()
    yield f"Not measured: {', '.join(left)}." if left else "Every operation of the five kinds is measured."
    yield ""


_EXPLAINED = """\
Each is run on XLA:CPU from the same inputs as its float64 twin. The numbers are units in the last place of the
result's dtype, as [compare.md](../compare.md) defines them: the median and the maximum on random (normal) numbers, then
the maximum on magnitudes near the largest and the smallest normal number, on numbers near 1 of alternating sign, which
cancel, and on subnormals. "+n" counts elements that are finite on one side only (a result beyond the dtype's range is
right if it is infinite). Of several results the worst counts. 0.5 is a correctly rounded result. XLA:CPU flushes
subnormals of float32 and bfloat16, which the last columns show: all their bits are lost, up to 2^mantissa units.

A row stands for all presets that decide alike, or whose decisions gave the same errors. The calls are in
`bench/ulp_calls.py`. Rounding is after each operation: the result of a single one is rounded under every preset.
""".splitlines()


def _known() -> Iterator[str]:
    """The numbers measured on stock torch_xla 2.9.0, repeated under its preset."""
    yield "## Sums held in bfloat16, as stock torch_xla 2.9.0 emits them"
    yield ""
    yield "Median relative error on 256 x 256 normal numbers along the last dim, and the share of results that differ"
    yield "from float32 accumulation. torch_xla 2.9.0 itself, on these numbers: 6.91e-3 and 4.39e-3, 78% and 67%."
    yield ""
    yield "| operation | `torch_xla-2.9` | `eager` | differ |"
    yield "|---|---|---|---|"
    for name, (narrow, wide, differ) in known().items():
        yield f"| {name} | {narrow:.3g} | {wide:.3g} | {differ:.0%} |"
    yield ""


def known() -> dict[str, tuple[float, float, float]]:
    """For sum and softmax: the median relative errors under torch_xla-2.9 and eager, and the share that differs."""
    x = torch.randn(256, 256, generator=torch.Generator().manual_seed(0)).bfloat16()
    found = {}
    for name, function in (("sum", lambda x: x.sum(-1)), ("softmax", lambda x: torch.softmax(x, -1))):
        graph = recorder.trace(function, (x,)).graph
        argument = graph.inputs[0].value.name
        results = {
            key: np.asarray(_results(plan, [argument], {"x": [x]})["x"][0]).astype(np.float64)
            for key, plan in (
                *((p, _plan(graph, Numerics.preset(p))) for p in ("torch_xla-2.9", "eager")),
                ("float64", resolve(graph, FLOAT64)),
            )
        }
        narrow, wide = (
            drift.measure(results[p], results["float64"], dtypes.bfloat16) for p in ("torch_xla-2.9", "eager")
        )
        found[name] = (narrow.median, wide.median, drift.differing(results["torch_xla-2.9"], results["eager"]))
    return found


def _table(title: str, measured: Sequence[Row], families: Sequence[str]) -> Iterator[str]:
    if not measured:
        return
    first, *others = families
    yield from (title, "")
    headings = (
        "operation",
        "dtype",
        "computed in",
        "presets",
        f"{first}: median",
        "max",
        *(f"{o}: max" for o in others),
    )
    yield f"| {' | '.join(headings)} |"
    yield "|---|---|---|---|" + "--:|" * (2 + len(others))
    for row in measured:
        presets = "all" if len(row.presets) == len(PRESETS) else ", ".join(row.presets)
        numbers = [_number(row.errors[first].ulps_median), *(_most(row.errors[family]) for family in families)]
        yield f"| {row.call} | {row.dtype} | {row.decision} | {presets} | {' | '.join(numbers)} |"
    yield ""


def _most(error: Error) -> str:
    return _number(error.ulps_largest) + (f" +{error.strays}" if error.strays else "")


def _number(x: float) -> str:
    return "0" if x == 0 else f"{x:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only operations with this in their name; printed, not written")
    chosen = parser.parse_args()
    text = "\n".join(page(chosen.only)).rstrip() + "\n"
    if chosen.only:
        print(text)
    else:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()

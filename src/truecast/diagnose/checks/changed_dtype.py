"""TC504: what lasts from step to step has another dtype than before: a parameter, a buffer, an optimizer's tensor, or
the dtype in which a layer computes."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import operation
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.dtypes import DType
from truecast.graph import Node
from truecast.observations import DtypeChange
from truecast.ops import lookup
from truecast.sites import Site

CODE = "TC504"
_PRODUCTS = frozenset(("contraction", "convolution", "attention"))
_SHOWN = 3


def check(flow: Flow) -> Iterator[Finding]:
    """One finding for each kind of state at one step; one for each layer's line whose products changed over steps."""
    groups: dict[tuple[object, ...], list[DtypeChange]] = {}
    for change in flow.observations.changes:
        key = (change.site, change.what, change.before, change.after, change.when)
        groups.setdefault(key, []).append(change)
    for changes in groups.values():
        yield _state(changes)
    yield from _layers(flow)


def _state(changes: list[DtypeChange]) -> Finding:
    first, count = changes[0], len(changes)
    kinds = {"parameter": "parameters", "buffer": "buffers"}
    what = kinds.get(first.what, f"the optimizer's `{first.what}`")
    names = ", ".join(f"`{change.path}`" for change in changes[:_SHOWN]) + ", ..." * (count > _SHOWN)
    return Finding(
        CODE,
        "warning",
        f"{what} changed from {first.before} to {first.after} {first.when}",
        (Place("symptom", first.site, f"{count} of them: {names}"),),
        "what is kept over steps keeps its dtype in a correct loop: from here on another precision holds than the one "
        "it began with, and a checkpoint or a compiled step sees other types",
        "cast before the optimizer is made, and write state in place (`copy_`, `mul_`) rather than anew",
    )


def _layers(flow: Flow) -> Iterator[Finding]:
    """Products of one module at one line in a dtype that they had in none of the steps before. Without gradients the
    program evaluates, which may well run otherwise."""
    earlier: dict[tuple[Site, str], list[DType]] = {}
    current: dict[tuple[Site, str], tuple[int, list[DType]]] = {}
    told: set[Site] = set()
    step, in_optimizer = 0, False
    for node in flow.graph.nodes:
        if (node.site.phase == "optimizer") is not in_optimizer:
            in_optimizer = not in_optimizer
            step += in_optimizer
        row, result = lookup(node.op), node.outputs[0] if node.outputs else None
        if row is None or row.kind not in _PRODUCTS or result is None or not node.site.module:
            continue
        if node.site.phase != "forward" or not flow.call(node).gradients:
            continue
        key = (node.site, node.op)
        then, dtypes = current.get(key, (step, []))
        if then != step:
            earlier[key], dtypes = [*earlier.get(key, ()), *dtypes], []
        current[key] = step, [*dtypes, result.dtype]
        before = earlier.get(key, [])
        if before and result.dtype not in before and node.site not in told:
            told.add(node.site)
            yield _layer(node, before[0], result.dtype)


def _layer(node: Node, before: DType, after: DType) -> Finding:
    return Finding(
        CODE,
        "warning",
        f"a layer computes in {before} in one step and in {after} in another",
        (Place("symptom", node.site, f"{operation(node)}: {before}, then {after}"),),
        "the steps differ in precision: a region, a cast or an input's dtype was there in one and not in the other",
        "put the region around every step, or cast the input where it enters",
    )

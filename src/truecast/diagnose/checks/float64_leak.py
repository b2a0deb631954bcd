"""TC202: float64 or complex128 enters the program's arithmetic by promotion, mostly from NumPy."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import article, cast_back, origin_place
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow, Step

CODE = "TC202"
_DOUBLE = frozenset(("float64", "complex128"))


def check(flow: Flow) -> Iterator[Finding]:
    """Each operation at which a float64 operand widens one of 32 bits or fewer."""
    refused = {flow.origin(v).value.name for r in flow.observations.refusals for _, v in r.operands}
    for node in flow.graph.nodes:
        for value in node.outputs:
            if value is None or value.dtype.name not in _DOUBLE or node.site.phase == "backward":
                continue
            step = flow.step(value)
            if step.why != "promotion" or step.because is None or value.name in refused:
                continue
            if flow.origin(step.because).why != "promotion":  # else it was told where that one is
                yield _finding(flow, step)


def _finding(flow: Flow, step: Step) -> Finding:
    assert step.because is not None, "a promotion has an operand that decided"
    dtype = step.value.dtype
    here = origin_place(flow, step)
    places = [Place("symptom", step.site, here.text if here else "", here.note if here else "")]
    born = origin_place(flow, flow.origin(step.because))
    if born is not None and born.site != step.site:
        places.append(born)
    origin = flow.origin(step.because)
    return Finding(
        CODE,
        "warning",
        f"{article(dtype)} tensor turns the arithmetic into {dtype}",
        tuple(places),
        f"it is {dtype} by {flow.rule(origin)}, and a dimensioned tensor promotes; accelerators emulate {dtype} or "
        "lack it",
        f"make it {step.outvoted[0].dtype} where it is made; if it needs 64 bits, round its result once",
        cast_back(step),
    )

"""TC501 and TC502: trainable parameters kept in 16 bits, and updates that are too small to move them."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.dtypes import DType
from truecast.observations import ParameterUpdate
from truecast.sites import Site

_SHOWN = 3  # parameters that are named
_SHARE = 0.5  # of the elements that had a gradient: below it, a step that stands still is an accident


def check(flow: Flow) -> Iterator[Finding]:
    """One finding for each line that calls an optimizer's step: TC502 where numbers show the loss, else TC501."""
    copies = {dtype for dtype in {u.dtype for u in flow.observations.updates} if _has_copy(flow, dtype)}
    steps: dict[tuple[Site, DType], list[ParameterUpdate]] = {}
    for update in flow.observations.updates:
        if not any(dtype.name == "float32" and "master" in name for name, dtype in update.state):
            steps.setdefault((update.site, update.dtype), []).append(update)
    for (site, dtype), updates in steps.items():
        pushed = sum(u.pushed or 0 for u in updates)
        unmoved = sum(u.unmoved or 0 for u in updates)
        if pushed and unmoved / pushed >= _SHARE:
            yield _unmoved(site, dtype, updates, pushed, unmoved)
        elif dtype not in copies:
            yield _narrow(site, dtype, updates)


def _has_copy(flow: Flow, dtype: DType) -> bool:
    """Whether an optimizer writes what it keeps in float32 into tensors of `dtype`: copies of the parameters."""
    for node in flow.graph.nodes:
        if node.site.phase == "optimizer" and flow.call(node).function in ("copy_", "_foreach_copy_"):
            wide = any(v.dtype.name == "float32" for v in node.inputs)
            if wide and any(v is not None and v.dtype is dtype for v in node.outputs):
                return True
    return False


def _narrow(site: Site, dtype: DType, updates: list[ParameterUpdate]) -> Finding:
    count = len({u.path for u in updates if u.path}) or len(updates)
    states = sorted({f"{name} {found}" for u in updates for name, found in u.state})
    return Finding(
        "TC501",
        "warning",
        f"parameters are trained in {dtype} without a float32 copy",
        (Place("symptom", site, f"{_parameters(count)} in {dtype}; state: {', '.join(states) or 'none'}"),),
        f"an update below 1 part in {2 ** (dtype.mantissa_bits + 2)} of a {dtype} weight is rounded away",
        "keep the parameters in float32 and compute in 16 bits (torch.autocast), or use an optimizer that keeps "
        "float32 copies or rounds stochastically",
    )


def _unmoved(site: Site, dtype: DType, updates: list[ParameterUpdate], pushed: int, unmoved: int) -> Finding:
    shares: dict[str, tuple[int, int]] = {}
    for update in updates:
        kept, of = shares.get(update.path, (0, 0))
        shares[update.path] = (kept + (update.unmoved or 0), of + (update.pushed or 0))
    worst = sorted(((kept / of, path) for path, (kept, of) in shares.items() if of), key=lambda s: -s[0])[:_SHOWN]
    named = ", ".join(f"`{path or 'a parameter'}` {share:.0%}" for share, path in worst)
    return Finding(
        "TC502",
        "warning",
        f"updates are too small to move {dtype} parameters",
        (
            Place(
                "symptom",
                site,
                f"{unmoved} of {pushed} elements with a gradient kept their value ({unmoved / pushed:.0%})",
                f"most in {named}",
            ),
        ),
        f"an update below half a unit in the last place, 1 part in {2 ** (dtype.mantissa_bits + 2)} of a {dtype} "
        "weight, is rounded away",
        "keep float32 copies of the parameters for the optimizer, or round stochastically",
    )


def _parameters(count: int) -> str:
    return f"{count} parameter{'s' * (count != 1)}"

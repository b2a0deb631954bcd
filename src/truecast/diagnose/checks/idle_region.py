"""TC602: an autocast region that changes no dtype."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.graph import Node
from truecast.observations import Region
from truecast.sites import Site

CODE = "TC602"
_RUNS_LATER = frozenset(("pjrt",))  # its operations wait on the device, where a recording does not see them


def check(flow: Flow) -> Iterator[Finding]:
    """Lines that ask for a region, however often, and in none of whose runs autocast converts anything."""
    asked: dict[Site, list[int]] = {}
    for index, region in enumerate(flow.observations.regions):
        asked.setdefault(region.site, []).append(index)
    inside: dict[int, int] = {}
    # A refusal inside says more: the region did not convert what it met.
    working = {refusal.call.region for refusal in flow.observations.refusals}
    for node in flow.graph.nodes:
        index = flow.call(node).region
        if index >= 0:
            inside[index] = inside.get(index, 0) + 1
            if _is_converted(flow, node):
                working.add(index)
    for site, indices in asked.items():
        if site.file and not working.intersection(indices):
            region = flow.observations.regions[indices[0]]
            if region.enabled and region.device_type in _RUNS_LATER:
                continue
            yield _finding(region, sum(inside.get(i, 0) for i in indices))


def _is_converted(flow: Flow, node: Node) -> bool:
    """Whether autocast converts here, or has before: it keeps a parameter's conversion."""
    values = (*node.inputs, *(v for v in node.outputs if v is not None))
    return any(flow.step(value).why == "autocast" for value in values)


def _finding(region: Region, count: int) -> Finding:
    if not region.enabled:
        reason = f"PyTorch disabled it: {region.device_type} is not available, or has no autocast to {region.dtype}"
        advice = "name the device type of the tensors: torch.autocast(x.device.type, ...)"
    elif not count:
        reason = "no operation ran in it"
        advice = "put it around the forward pass"
    else:
        reason = (
            f"none of the {count} operation{'s' * (count != 1)} in it had an operand on {region.device_type} that its "
            "list converts: it is for another device type, or the operands have the dtype already"
        )
        advice = "drop it, or name the device type of the tensors: torch.autocast(x.device.type, ...)"
    return Finding(
        CODE,
        "warning",
        "an autocast region has no effect",
        (Place("symptom", region.site, f"{region.device_type} to {region.dtype}, {count} operations"),),
        reason,
        advice,
    )

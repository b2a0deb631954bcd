"""TC603: a process-wide precision flag that the program sets and nothing in it heeds."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import Flow
from truecast.observations import Flag
from truecast.ops import lookup

CODE = "TC603"
_PRODUCTS = frozenset(("contraction", "convolution", "attention"))


def check(flow: Flow) -> Iterator[Finding]:
    """Flags for float32 products in a program without any, and flags of CUDA's libraries where no product ran there."""
    products = {
        v.dtype.name
        for node in flow.graph.nodes
        if (row := lookup(node.op)) is not None and row.kind in _PRODUCTS
        for v in node.inputs
        if v.dtype.is_inexact
    }
    if not products:
        return
    devices = flow.observations.devices
    for flag in flow.observations.flags:
        if flag.name.startswith("torch.backends.cud") and "cuda" not in devices:
            where = ", ".join(sorted(devices)) or "another device"
            yield _finding(flag, f"it is for cuda's libraries, and the program's products run on {where}")
        elif flag.name.endswith(("matmul_precision", "tf32")) and not products & {"float32", "complex64"}:
            found = ", ".join(sorted(products))
            yield _finding(flag, f"it is for float32 products, and the program's have operands of {found}")


def _finding(flag: Flag, reason: str) -> Finding:
    return Finding(
        CODE,
        "warning",
        f"`{flag.name}` has no effect",
        (Place("symptom", flag.site, f"set to {flag.value}"),),
        reason,
        "drop it; what a product computes in is decided by its operands' dtypes and by the policy (--numerics)",
    )

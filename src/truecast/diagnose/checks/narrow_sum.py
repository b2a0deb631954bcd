"""TC307 and TC308: sums that are accumulated in 16 bits, by the chosen policy or by the program itself."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import operation
from truecast.diagnose.finding import Finding, Place, by_message
from truecast.diagnose.flow import Flow
from truecast.dtypes import DType
from truecast.graph import Node, Value
from truecast.numerics.plan import Decision
from truecast.ops import lookup
from truecast.ops.operands import bound
from truecast.sites import Site

_PRODUCTS = frozenset(("contraction", "convolution", "attention"))
_FEW = 8  # additions: as many as cost 3 of bfloat16's 8 bits


def check(flow: Flow) -> Iterator[Finding]:
    """Nodes whose decision is to accumulate in 16 bits over more addends than the dtype counts; running totals."""
    yield from by_message(_planned(flow))
    yield from _totals(flow)


def _planned(flow: Flow) -> Iterator[Finding]:
    if flow.plan is None:
        return
    for node, decision in flow.plan.pairs():
        dtype = decision.accumulate
        if dtype is None or not dtype.is_floating or not dtype.is_narrow or dtype.bits < 16:
            continue
        count = _addends(node)
        if count > _counts_to(dtype):
            yield _planned_finding(flow, node, decision, dtype, count)


def _counts_to(dtype: DType) -> int:
    """The number of ones after which a sum in `dtype` stands still: 256 in bfloat16, 2048 in float16."""
    return int(2 ** (dtype.mantissa_bits + 1))


def _addends(node: Node) -> int:
    """How many numbers each result of a node is a sum of; 0 where that can't be told."""
    row, result = lookup(node.op), node.outputs[0] if node.outputs else None
    first = next((v for v in node.inputs if v.dtype.is_inexact and v.shape), None)
    if row is None or result is None or first is None:
        return 0
    if row.kind == "reduction":
        return first.size // max(result.size, 1)
    if row.kind == "scan":
        dim = bound(node).get("dim")
        return first.shape[dim] if isinstance(dim, int) else 0
    if row.kind == "convolution":
        weight = bound(node).get("weight")
        return weight.size // max(weight.shape[0], 1) if isinstance(weight, Value) and weight.shape else 0
    if row.kind == "contraction":
        arguments = bound(node)
        left = next((v for n in ("mat1", "batch1", "mat") if isinstance(v := arguments.get(n), Value)), first)
        return left.shape[-1]
    return first.shape[-1] if row.kind in ("normalization", "attention") else 0


def _planned_finding(flow: Flow, node: Node, decision: Decision, dtype: DType, count: int) -> Finding:
    assert flow.plan is not None, "a decision has a plan"
    is_forward = node.site.phase == "forward"
    name = (is_forward and flow.call(node).function.strip("_")) or operation(node)
    phase = " in the backward pass" if node.site.phase == "backward" else ""
    rule = dict(decision.decided_by).get("accumulate")
    where = "the default" if rule is None else f"the rule for {rule.matches}"
    where += f" ({rule.where})" if rule is not None and rule.where else ""
    return Finding(
        "TC307",
        "warning",
        f"{name}{phase} accumulates in {dtype} under `{flow.plan.numerics.name}`",
        (Place("symptom", node.site, f"{count} addends: {operation(node)} of {next(node.inputs)}"),),
        f"{where} decides it; a sum of equal numbers in {dtype} stands still after {_counts_to(dtype)} of them",
        'give the policy a rule with accumulate = "float32" for it, or sum in float32: x.sum(dtype=torch.float32)',
    )


def _totals(flow: Flow) -> Iterator[Finding]:
    """Additions at one line into the result of the addition before, which nothing else reads."""
    lengths: dict[str, int] = {}  # by the total's name: the additions in it
    told: set[Site] = set()
    for node in flow.graph.nodes:
        result = node.outputs[0] if node.outputs else None
        if node.op != "aten.add.Tensor" or result is None or not result.dtype.is_narrow or not result.dtype.is_floating:
            continue
        if node.site.phase != "forward" or node.site.module:
            continue
        total, addend = (*node.args, None)[:2]
        if not isinstance(total, Value) or not isinstance(addend, Value):
            continue
        before = flow.producers.get(total.name)
        same = before is not None and before.op == node.op and before.site == node.site
        alone = flow.consumers.get(total.name) == [node]
        length = lengths.get(total.name, 0) + 1 if same and alone else 1
        lengths[result.name] = length
        if length >= _FEW and node.site not in told:
            told.add(node.site)
            yield _total(node.site, result, addend)


def _total(site: Site, result: Value, addend: Value) -> Finding:
    dtype = result.dtype
    return Finding(
        "TC308",
        "warning",
        f"a running total is kept in {dtype}",
        (Place("symptom", site, f"{result} + {addend}, time and again"),),
        f"each addition rounds to {dtype.mantissa_bits + 1} significant bits; once the total is {_counts_to(dtype)} "
        "times an addend it stands still",
        "keep the total in float32: total = torch.zeros((), dtype=torch.float32); total += loss.detach()",
    )

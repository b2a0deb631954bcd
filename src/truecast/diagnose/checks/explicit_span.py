"""TC205 and TC206: what an explicit cast to float32 costs, and one that its readers have no need of."""

from __future__ import annotations

from collections.abc import Iterator

from truecast.diagnose.explained import article, operation, size_text
from truecast.diagnose.finding import Finding, Place
from truecast.diagnose.flow import CASTS, Flow, Step
from truecast.diagnose.span import Span, follow
from truecast.graph import Node, Value

_LEAST = 1 << 20  # bytes: what a cast of less costs is lost in the noise of a step
_SELECTIONS = frozenset(
    ("index", "index_select", "gather", "slice", "select", "narrow", "masked_select", "take", "take_along_dim")
)
# Exact in 16 bits: widening keeps the order of numbers, so the same element is chosen.
_ORDER = frozenset(("argmax", "argmin", "topk", "sort", "argsort", "max", "min", "amax", "amin", "kthvalue"))
_VIEWS = frozenset(("view", "_unsafe_view", "reshape", "t", "transpose", "permute", "detach", "alias", "expand"))
_LOSSES = frozenset(("log_softmax", "nll_loss_forward", "nll_loss", "cross_entropy_loss"))


def check(flow: Flow) -> Iterator[Finding]:
    """The program's own widening casts of 16-bit values, from 1 MiB on. The first at a line speaks for the others: 80
    layers have the same spans, and to follow each of them to its end would take their number squared."""
    told: dict[tuple[str, int, int], Finding] = {}
    for node in flow.graph.nodes:
        value = node.outputs[0] if node.outputs else None
        if value is None or node.site.phase != "forward" or value.dtype.name not in ("float32", "float64"):
            continue
        step = flow.step(value)
        if step.why != "cast" or step.because is None or not step.because.dtype.is_narrow:
            continue
        if flow.call(node).function not in CASTS or flow.parameter(step.because) is not None:
            continue
        position = node.site.file, node.site.line, node.site.column
        finding = told.get(position) or _judged(flow, step)
        if finding is not None:
            told[position] = finding
            yield finding


def _judged(flow: Flow, step: Step) -> Finding | None:
    """TC206 if the readers need no wide copy, TC205 if the copy and what follows take 1 MiB, else nothing."""
    value, readers = step.value, list(_readers(flow, step.value))
    if not readers:
        return None
    if value.nbytes >= _LEAST:
        if all(operation(n) in _ORDER for n in readers):
            reason = f"{operation(readers[0])} chooses the same element in 16 bits"
            return _needless(step, readers[0], reason, "drop the cast")
        kept = sum(v.size for n in readers for v in n.outputs[:1] if v is not None)
        if all(map(_selects, readers)) and 2 * kept <= value.size:
            unread = size_text(value.nbytes - kept * value.dtype.itemsize)
            reason = f"{unread} of its {size_text(value.nbytes)} are converted and never read"
            return _needless(step, readers[0], reason, "select first, and convert what is left")
    span = follow(flow, value)
    return _cost(flow, step, span) if span.nodes and value.nbytes + span.nbytes >= _LEAST else None


def _readers(flow: Flow, value: Value) -> Iterator[Node]:
    """The nodes that read a value, views of it seen through."""
    for node in flow.consumers.get(value.name, ()):
        result = node.outputs[0] if node.outputs else None
        if operation(node) in _VIEWS and result is not None and result.size == value.size:
            yield from _readers(flow, result)
        else:
            yield node


def _selects(node: Node) -> bool:
    result, source = node.outputs[0], next(node.inputs)
    return operation(node) in _SELECTIONS and result is not None and result.size < source.size


def _needless(step: Step, reader: Node, reason: str, advice: str) -> Finding:
    return Finding(
        "TC206",
        "warning",
        f"{article(step.value.dtype)} copy is made that its readers don't need",
        (
            Place("symptom", step.site, f"{step.because} -> {step.value}"),
            Place("related", reader.site, f"{operation(reader)} -> {reader.outputs[0]}"),
        ),
        reason,
        advice,
    )


def _cost(flow: Flow, step: Step, span: Span) -> Finding:
    assert step.because is not None, "a cast has a source"
    value, count = step.value, len(span.nodes)
    loss = next((n for n in span.nodes if operation(n) in _LOSSES), None)
    total = size_text(value.nbytes + span.nbytes)
    places = [Place("symptom", step.site, f"{step.because} -> {value}")]
    for end in span.ends[:1]:
        places.append(Place("related", end.site, f"it ends here: {end.outputs[0]}"))
    if loss is not None:
        message = f"the loss is computed from {value.dtype} logits"
        places.append(Place("related", loss.site, f"{operation(loss)} of {next(loss.inputs)}"))
        advice = "compute the loss slice by slice, so that only one slice of the logits is wide at a time"
    else:
        message = f"an explicit cast begins {article(value.dtype)} span"
        product = f"; the first product in it is {operation(span.heavy)}" if span.heavy is not None else ""
        advice = f"if it is meant, nothing; else convert back to {step.because.dtype} earlier{product}"
    ending = "it is converted back" if span.ends else "nothing converts it back"
    return Finding(
        "TC205",
        "info",
        message,
        tuple(places),
        f"{count} operation{'s' * (count != 1)} and {total} of results, the copy included, are {value.dtype} because "
        f"of it; {ending}",
        advice,
    )

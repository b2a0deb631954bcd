"""TC101 to TC107: operations that refuse their operands' dtypes, each with where the stranger's dtype came from.

The recording went on with casts, so the refusals after the first are here too; those that only repeat another's
cause are one finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from truecast.diagnose import source
from truecast.diagnose.explained import article, cast_back, origin_place
from truecast.diagnose.finding import Cast, Edit, Finding, Place, Span
from truecast.diagnose.flow import Flow, Step
from truecast.diagnose.source import operand_texts, with_cast
from truecast.graph import Value
from truecast.observations import Refusal
from truecast.ops import lookup
from truecast.ops.schema import schema
from truecast.sites import Site


@dataclass(frozen=True, slots=True)
class _Family:
    """code; message: with offender and anchor, each "a float32 activation"; demand: what the operation asks for;
    widens: the narrower operand is at odds, since what is summed or kept belongs in the wider dtype."""

    code: str
    message: str
    demand: str
    widens: bool = False


_MEETS = "{offender} meets {anchor}"
_PRODUCT = _Family("TC101", _MEETS, "{operation} demands equal dtypes")
_FAMILIES: dict[str, _Family] = {
    "contraction": _PRODUCT,
    "convolution": _PRODUCT,
    "normalization": _Family("TC102", _MEETS, "{operation} takes parameters of its input's dtype, or float32 ones"),
    "attention": _Family("TC103", _MEETS, "attention demands one dtype for query, key and value"),
    "indexing": _Family("TC104", "{offender} is written into {anchor}", "a write by index does not promote"),
    "movement": _Family("TC104", "{offender} is written into {anchor}", "a write into a part does not promote"),
    "elementwise": _Family("TC105", _MEETS, "{operation} does not promote", widens=True),
    "optimizer": _Family("TC105", _MEETS, "{operation} does not promote", widens=True),
    "loss": _Family("TC106", _MEETS, "{operation} demands equal dtypes", widens=True),
}
_OTHER = _Family("TC107", _MEETS, "{operation} demands equal dtypes")
_KIND_OF_FUNCTION = {"scaled_dot_product_attention": "attention", "prelu": "elementwise"}
# The public names of ATen's arguments, where they differ.
_LINEAR = {
    "aten.addmm.default": {"mat1": "input", "mat2": "weight", "self": "bias"},
    "aten.mm.default": {"self": "input", "mat2": "weight"},
}
_WRITES = frozenset(("values", "src", "source"))


def check(flow: Flow) -> Iterator[Finding]:
    """One finding per refusal."""
    for _, finding in refused(flow):
        yield finding


def refused(flow: Flow) -> Iterator[tuple[Refusal, Finding]]:
    """Each refusal with its finding, without those that are another's consequence: a backward operation that is refused
    where its forward one was (autograd saved what the program passed, not what it was cast to), and what a function
    makes in the dtype of its input (a recurrent cell's first state)."""
    refused = Counter(_line(r.site) for r in flow.observations.refusals if r.site.phase == "forward")
    for refusal in flow.observations.refusals:
        if refusal.site.phase == "backward" and _line(refusal.site) in refused:
            continue
        finding = _finding(flow, refusal)
        if refused[_line(refusal.site)] == 1 or not _is_made_inside(finding):
            yield refusal, finding


def _is_made_inside(finding: Finding) -> bool:
    """Whether the stranger was made by the very call that refuses it."""
    return any(place.role == "origin" and place.site == finding.places[0].site for place in finding.places)


def _line(site: Site) -> tuple[str, int, int]:
    return site.file, site.line, site.column


def _finding(flow: Flow, refusal: Refusal) -> Finding:
    family = _family(refusal)
    if len(refusal.operands) < 2:
        return _alone(flow, refusal, family)
    offender, anchor = sides(flow, refusal)
    origin = flow.origin(offender[1])
    place = origin_place(flow, origin)
    places = [Place("symptom", refusal.site, _values(flow, refusal)), *([place] if place is not None else [])]
    if flow.parameter(anchor[1]) is None:
        other = origin_place(flow, flow.origin(anchor[1]))
        if other is not None and (place is None or other.site != place.site):
            places.append(Place("related", other.site, other.text, other.note))
    help_text, edit = _help(flow, refusal, family, offender, anchor, origin)
    operation = refusal.call.function.strip("_") or refusal.op.split(".")[1]
    return Finding(
        family.code,
        "error",
        family.message.format(
            offender=article(f"{offender[1].dtype} {_noun(flow, refusal, offender)}"),
            anchor=article(f"{anchor[1].dtype} {_noun(flow, refusal, anchor)}"),
        ),
        tuple(places),
        f"{_reason(flow, origin)}; {family.demand.format(operation=_spelled(operation))}",
        help_text,
        edit,
    )


def _family(refusal: Refusal) -> _Family:
    if "." not in refusal.op:
        kind = _KIND_OF_FUNCTION.get(refusal.op, "convolution")
    else:
        row = lookup(refusal.op)
        kind = row.kind if row is not None else ""
    if kind == "indexing" and not any(name in _WRITES for name, _ in refusal.operands):
        return _OTHER
    return _FAMILIES.get(kind, _OTHER)


def _alone(flow: Flow, refusal: Refusal, family: _Family) -> Finding:
    """An operation that refuses one operand for what it is."""
    name, value = refusal.operands[0]
    place = origin_place(flow, flow.origin(value))
    operation = refusal.call.function.strip("_") or refusal.op.split(".")[1]
    return Finding(
        family.code,
        "error",
        f"{operation} does not take {article(value.dtype)} `{name}`",
        (Place("symptom", refusal.site, f"{name} {value}"), *([place] if place is not None else [])),
        refusal.message,
        f"cast `{name}` to a dtype that {operation} takes",
    )


def sides(flow: Flow, refusal: Refusal) -> tuple[tuple[str, Value], tuple[str, Value]]:
    """The operand that is at odds, and the one that it is measured by: a parameter where there is one, what is
    written into, else the narrower."""
    first = refusal.operands[0]
    second = next((o for o in refusal.operands[1:] if o[1].dtype is not first[1].dtype), refusal.operands[-1])
    if first[0] in _WRITES or second[0] in _WRITES:
        return (first, second) if first[0] in _WRITES else (second, first)
    if _family(refusal).widens:
        return (first, second) if first[1].dtype.bits < second[1].dtype.bits else (second, first)
    owned = [flow.parameter(v) is not None for _, v in (first, second)]
    if owned == [True, False]:
        return second, first
    if owned == [False, True] or first[1].dtype.bits >= second[1].dtype.bits:
        return first, second
    return second, first


def _noun(flow: Flow, refusal: Refusal, operand: tuple[str, Value]) -> str:
    name, value = operand
    if flow.parameter(value) is not None:
        return "bias" if name == "bias" else "weight"
    if refusal.op == "scaled_dot_product_attention" or name in ("query", "key", "value", "target", "weight"):
        return name
    if name in _WRITES:
        return "source"
    row = lookup(refusal.op) if "." in refusal.op else None
    if row is not None and row.kind in ("elementwise", "optimizer", "indexing", "movement"):
        return "tensor"
    return "gradient" if refusal.site.phase == "backward" else "activation"


def _values(flow: Flow, refusal: Refusal) -> str:
    names = _LINEAR.get(refusal.op, {}) if refusal.call.function == "linear" else {}
    shown = sorted(refusal.operands, key=lambda o: flow.parameter(o[1]) is not None)
    return ", ".join(f"{names.get(name, name)} {_whole(flow, value)}" for name, value in shown)


def _whole(flow: Flow, value: Value) -> Value:
    """A parameter as it is stored, not as an operation views it."""
    if flow.parameter(value) is None:
        return value
    return next((s.value for s in flow.back(value) if s.why == "parameter"), value)


def _reason(flow: Flow, origin: Step) -> str:
    dtype = origin.value.dtype
    call = flow.call(origin.node) if origin.node is not None else None
    match origin.why:
        case "promotion":
            return "PyTorch promotes two dimensioned tensors to the wider dtype (law N1)"
        case "factory":
            return f"`{call.function if call else 'a factory'}` makes {dtype}"
        case "cast":
            return f"the program converts to {dtype}"
        case "autocast":
            return f"autocast converts to {dtype}"
        case "input":
            path = origin.source.path if origin.source is not None else ""
            return f"`{path}` comes in as {dtype}"
        case "parameter":
            return f"the parameter is {dtype}"
        case "numpy":
            return f"NumPy computes in {dtype}"
        case "category" | "default" | "result":
            return f"the operation returns {dtype}"
        case _:
            return f"it is {dtype} here"


def _help(
    flow: Flow, refusal: Refusal, family: _Family, offender: tuple[str, Value], anchor: tuple[str, Value], origin: Step
) -> tuple[str, Edit | None]:
    narrow = anchor[1].dtype
    path = flow.parameter(offender[1])
    if path is not None and not family.widens:
        named = f"`{path}`" if path else "this one"
        return f"keep the parameters in one dtype: {named} is {offender[1].dtype}", None
    if is_norm_in_autocast(refusal):
        return "keep the norm in float32: autocast leaves its input so, and the lists of other devices widen it", None
    if origin.why == "promotion" and any(v.dtype is narrow for v in origin.outvoted):
        return f"round to {narrow} once, where the arithmetic with the {origin.value.dtype} tensor ends", cast_back(
            origin
        )
    span = operand_span(refusal, offender[0])
    edit = None if span is None else with_cast(Cast(refusal.site.file, span, f"to(torch.{narrow})"))
    return f"cast where it enters: {narrow} is what the other operand has", edit


def is_norm_in_autocast(refusal: Refusal) -> bool:
    """Whether a cast of the input would mend the refusal and make the norm narrower than autocast wants norms to be."""
    return _family(refusal).code == "TC102" and refusal.call.autocast is not None


# The order of operands in the source, by public function.
_POSITIONS: dict[str, tuple[str, ...]] = {
    "linear": ("input", "weight", "bias"),
    **dict.fromkeys(("matmul", "mm", "bmm", "dot", "mv"), ("self", "mat2")),
    "scaled_dot_product_attention": ("query", "key", "value"),
    **{f"conv{n}d": ("input", "weight", "bias") for n in (1, 2, 3)},
    "lerp_": ("self", "end"),
    "lerp": ("self", "end"),
}


def operand_span(refusal: Refusal, name: str) -> Span | None:
    """Where the operand `name` of a refused operation stands in the source; None if that can't be told: autograd's own
    operations have the line of the forward ones."""
    function, site = refusal.call.function, refusal.site
    if not function:
        return None
    if function == "__setitem__":
        from truecast.diagnose.fix.rewriting import assigned  # LibCST: half a second, for who has something to mend

        return assigned(site.file, site.span) if name in _WRITES else None
    texts = operand_texts(site, function)
    index = 0
    if len(texts) != 1 or name in ("weight", "bias", "mat2"):
        order = _POSITIONS.get(function) or _names(refusal.op)
        name = _LINEAR.get(refusal.op, {}).get(name, name) if function == "linear" else name
        if name not in order or order.index(name) >= len(texts):
            return None
        index = order.index(name)
    return source.operand_span(site, index, function)


def _names(op: str) -> tuple[str, ...]:
    """The names of an operation's arguments: the order of a method's or function's, or of a binary operator's sides."""
    return tuple(parameter.name for parameter in schema(op).parameters) if "." in op else ()


def _spelled(operation: str) -> str:
    if operation.startswith("conv"):
        return "convolution"
    return {"matmul": "a matrix product", "mm": "a matrix product", "linear": "a linear layer"}.get(
        operation, operation
    )

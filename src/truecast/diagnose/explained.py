"""The words that several checks share: what stands at an origin, and what an operand is called in the source."""

from __future__ import annotations

from truecast.diagnose.finding import Edit, Place
from truecast.diagnose.flow import Flow, Step
from truecast.diagnose.source import one_name, operand_texts, short, wrapped
from truecast.dtypes import DType
from truecast.graph import Node, Value

_SYMBOLS = {"mul": "*", "add": "+", "sub": "-", "rsub": "-", "div": "/", "pow": "**", "mm": "@", "bmm": "@"}


def operation(node: Node) -> str:
    """An operation's name without namespace and overload: "mul"."""
    return node.op.split(".")[1].strip("_")


def article(word: object) -> str:
    """ "a float32", "an int64"."""
    text = str(word)
    return f"an {text}" if text[:1] in "aeiou" else f"a {text}"


def amount(nbytes: int) -> str:
    """ "4.2 MB": bytes in powers of 1000."""
    size = float(nbytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if size >= 99.5 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def origin_place(flow: Flow, step: Step) -> Place | None:
    """Where a dtype was chosen, with what happened there; None if no source line did."""
    if step.birth is not None and step.site.file:
        return Place("origin", step.site, f"{step.birth.form} -> {step.value}", "NumPy computes in float64")
    if step.node is None or not step.site.file:
        return None
    return Place("origin", step.site, _happened(flow, step), _note(flow, step))


def _happened(flow: Flow, step: Step) -> str:
    node, value = step.node, step.value
    assert node is not None, "an origin without a node has no place"
    if step.why == "promotion" and step.because is not None:
        order = [v for v in node.inputs if v in (step.because, *step.outvoted)]
        symbol = _SYMBOLS.get(operation(node), ",")
        joined = f" {symbol} ".join(map(str, order)) if symbol != "," else ", ".join(map(str, order))
        return f"{joined} -> {value.dtype}"
    if step.why in ("cast", "autocast", "internal", "gradient") and step.because is not None:
        by = {"cast": "", "autocast": " (autocast)", "internal": f" (inside {flow.call(node).function})"}
        return f"{step.because} -> {value.dtype}{by.get(step.why, ' (backward)')}"
    if step.why == "parameter":
        return f"parameter {flow.parameter(value) or ''}".rstrip() + f" {value}"
    return f"{flow.call(node).function.strip('_') or operation(node)} -> {value}"


def _note(flow: Flow, step: Step) -> str:
    if step.why == "promotion" and step.because is not None:
        return promoter(flow, step)
    if step.why == "factory" and step.value.dtype.is_floating and step.node is not None:
        given = any(isinstance(a, DType) for _, a in step.node.kwargs)
        return "" if given else "no dtype is given, so it is torch.get_default_dtype()"
    return ""


def promoter(flow: Flow, step: Step) -> str:
    """Who decided a promotion, in words: "`sigma` is a 4-dim float32 tensor (train.py:30); ..."."""
    assert step.because is not None and step.node is not None, "a promotion has an operand that decided"
    name = operand_name(step.node, step.because)
    birth = flow.origin(step.because)
    made = birth.site if birth.site.file else flow.step(step.because).site
    at = f" ({made})" if made.file and made.line != step.site.line else ""
    path = flow.parameter(step.because)
    what = f"parameter `{path}`" if path else f"`{name}`" if name else "one operand"
    return (
        f"{what} is a {len(step.because.shape)}-dim {step.because.dtype} tensor{at}; "
        "a 0-dim tensor or a Python number would not promote"
    )


def operand_name(node: Node, operand: Value) -> str:
    """What `operand` of `node` is called in the source: its variable, or the expression; "" if that is unknown."""
    texts = operand_texts(node.site)
    values = list(node.inputs)
    if operand not in values or len(texts) < len(values):
        return ""
    name = one_name(texts[values.index(operand)])
    return short(name)


def cast_back(step: Step) -> Edit | None:
    """The origin's line with one cast to the dtype that was outvoted, around the whole arithmetic expression."""
    if step.node is None or not step.outvoted:
        return None
    narrow = step.outvoted[0]
    name = operand_name(step.node, narrow)
    like = f"{name}.dtype" if name.replace(".", "").replace("_", "").isalnum() and name else f"torch.{narrow.dtype}"
    return wrapped(step.site, f"to({like})")


def size_text(nbytes: float) -> str:
    """A number of bytes in the largest unit below it: "12 KiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} GiB"

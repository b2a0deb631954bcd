"""TC401: an operation that this device type's autocast list leaves out and another's has, run in a dtype that the
other list would have changed."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from truecast.diagnose.explained import operation
from truecast.diagnose.finding import Finding, Place, by_message
from truecast.diagnose.flow import Flow
from truecast.dtypes import DType
from truecast.graph import Node
from truecast.numerics.autocast import LISTS, Policy
from truecast.observations import Call
from truecast.ops import lookup

CODE = "TC401"
# By the device type that a region names; "pjrt" is registered as PyTorch's PrivateUse1.
_LIST_OF_DEVICE = {**{name: name for name in LISTS}, "pjrt": "privateuse1"}
# Kinds to which 16 bits bring something; elsewhere a list's "lower_precision" (xla's relu) changes nothing of note.
_FAST_IN_16_BITS = frozenset(("contraction", "convolution", "attention"))
_ARITHMETIC = frozenset(("elementwise", "reduction", "scan", "normalization", "loss", *_FAST_IN_16_BITS))
_OVERLOADS = frozenset(name for table in LISTS.values() for name in table if "." in name)
_FLOAT32 = ("float32", "float32_dtype")


def check(flow: Flow) -> Iterator[Finding]:
    """One finding for each operation, wherever it is called, naming the lists that differ."""
    yield from by_message(_each(flow))


def _each(flow: Flow) -> Iterator[Finding]:
    refused = {r.site for r in flow.observations.refusals}
    for node in flow.graph.nodes:
        call = flow.call(node)
        here = _LIST_OF_DEVICE.get(call.autocast_device)
        row = lookup(node.op)
        if here is None or call.autocast is None or row is None or row.kind not in _ARITHMETIC:
            continue
        if node.site.phase != "forward" or node.site in refused or _policy(here, _names(node, call)) is not None:
            continue
        dtype = _computed(node)
        if dtype is None or dtype.bits > 32:
            continue
        others = _others(here, _names(node, call), dtype, row.kind in _FAST_IN_16_BITS)
        if others:
            wanted = call.autocast if others[0][1] == "lower_precision" else None
            yield _finding(node, call, dtype, [name for name, _ in others], wanted)


def _computed(node: Node) -> DType | None:
    """The dtype that an operation ran in: its result's, if that is its first floating operand's (a norm's parameters
    may have another)."""
    result = node.outputs[0] if node.outputs else None
    first = next((v.dtype for v in node.inputs if v.dtype.is_floating), None)
    return first if result is not None and result.dtype is first else None


def _names(node: Node, call: Call) -> tuple[str, ...]:
    """What the lists may call an operation: its overload, its name, and the public function's."""
    name, overload = node.op.split(".")[1:]
    whole = name if overload == "default" else f"{name}.{overload}"
    if whole in _OVERLOADS:  # the lists tell its overloads apart
        return (whole, call.function.strip("_"))
    row = lookup(node.op)
    attention = ("scaled_dot_product_attention",) if row is not None and row.kind == "attention" else ()
    bare = name.strip("_").removeprefix("native_").removeprefix("fused_")
    return (whole, bare, call.function.strip("_"), *attention)


@functools.cache
def _by_stem(device: str) -> dict[str, Policy]:
    return {name.split(".")[0]: policy for name, policy in LISTS[device].items()}


@functools.cache
def _policy(device: str, names: tuple[str, ...]) -> Policy | None:
    found = (LISTS[device].get(name) or (None if "." in name else _by_stem(device).get(name)) for name in names)
    return next((policy for policy in found if policy is not None), None)


@functools.cache
def _others(here: str, names: tuple[str, ...], dtype: DType, is_fast: bool) -> tuple[tuple[str, Policy], ...]:
    """The device types under which it would have run in another dtype."""
    found: list[tuple[str, Policy]] = []
    for device in LISTS:
        policy = _policy(device, names)
        narrows = policy == "lower_precision" and not dtype.is_narrow and is_fast
        widens = policy in _FLOAT32 and dtype.is_narrow
        if device != here and policy is not None and (narrows or widens):
            found.append((device, policy))
    return tuple(found)


def _finding(node: Node, call: Call, dtype: DType, others: list[str], wanted: DType | None) -> Finding:
    name = call.function.strip("_") or operation(node)
    device = call.autocast_device
    named = others[0] if len(others) == 1 else f"{', '.join(others[:-1])} and {others[-1]}"
    goal = "float32" if wanted is None else str(wanted)
    return Finding(
        CODE,
        "info",
        f"{name} is on no autocast list of {device}, and on that of {named}",
        (Place("symptom", node.site, f"{operation(node)} of {next(v for v in node.inputs if v.dtype is dtype)}"),),
        f"inside the region it runs in {dtype}, the dtype of its operands; under autocast of {named} it runs in {goal}",
        f"where all devices shall agree, convert its operands, {name}(x.to(torch.{goal})); "
        f"`truecast numerics diff {others[0]} {_LIST_OF_DEVICE[device]}` prints the lists' differences",
    )

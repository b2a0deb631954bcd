"""The functional form of an operation that writes: aten.add_.Tensor and aten.add.out are aten.add.Tensor.

Found from the schemas, not from a list of names. A functional form takes the same arguments (without `out`) and
returns what the operation returns without its written arguments, then the new contents of each written argument
in order: the convention of PyTorch's own code generator.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from truecast.ops.schema import Parameter, Schema, overload, schema

Keywords = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class FunctionalForm:
    """op: the functional overload. written: the schema arguments of the writing form whose new contents are its
    results from number `first_written` on. dropped: arguments that the functional form does not take (`out`)."""

    op: str
    written: tuple[str, ...]
    first_written: int
    dropped: frozenset[str]

    def arguments(self, writing: str, args: tuple[Any, ...], kwargs: Keywords) -> tuple[tuple[Any, ...], Keywords]:
        """The arguments of a call of the form `writing`, for this one. An argument that was left out, since it has a
        default there, is written out: here it may have none (bernoulli_'s p)."""
        kept = [p for p in schema(writing).parameters if p.name not in self.dropped]
        given = {**{p.name: a for p, a in zip(schema(writing).parameters, args, strict=False)}, **dict(kwargs)}
        required = {p.name for p in schema(self.op).parameters if not p.has_default}
        positional = [p for p in kept if not p.keyword_only]
        last = max((i for i, p in enumerate(positional) if p.name in given or p.name in required), default=-1)
        return (
            tuple([given.get(p.name, p.default) for p in positional[: last + 1]]),
            tuple([(p.name, given[p.name]) for p in kept if p.keyword_only and p.name in given]),
        )


# Operations that write although their schema does not say so, and what they write (ATen's batch norms).
HIDDEN_WRITES: dict[str, FunctionalForm] = {
    op: FunctionalForm(
        "aten._native_batch_norm_legit_functional.default", ("running_mean", "running_var"), 3, frozenset()
    )
    for op in ("aten.native_batch_norm.default",)
}


@functools.cache
def functional_form(op: str) -> FunctionalForm | None:
    """The functional form of "aten.add_.Tensor"; None if PyTorch has none."""
    if op in HIDDEN_WRITES:
        return HIDDEN_WRITES[op]
    namespace, name, _ = op.split(".")
    form = schema(op)
    written = tuple(p.name for p in form.parameters if p.written)
    for candidate in _candidates(namespace, name):
        other = schema(candidate)
        if not other.is_functional:
            continue
        for dropped in (frozenset(), frozenset(p.name for p in form.parameters if p.written and p.keyword_only)):
            kept = tuple(p for p in form.parameters if p.name not in dropped)
            if _same(kept, other.parameters):
                first = sum(not w for w in form.written_returns)
                if other.returns == first + len(written):
                    return FunctionalForm(candidate, written, first, dropped)
    return None


def _candidates(namespace: str, name: str) -> list[str]:
    bare = name.removesuffix("_")
    packets = getattr(torch.ops, namespace)
    names = [bare, f"{bare}_functional", name, f"{name}_functional"]
    found = []
    for packet_name in dict.fromkeys(names):
        packet = getattr(packets, packet_name, None)
        if packet is not None:
            found += [f"{namespace}.{packet_name}.{variant}" for variant in packet.overloads()]
    return found


def _same(ours: tuple[Parameter, ...], theirs: tuple[Parameter, ...]) -> bool:
    return [(p.name, p.type) for p in ours] == [(p.name, p.type) for p in theirs]


def writes(op: str) -> bool:
    """Whether the overload writes any of its arguments."""
    return op in HIDDEN_WRITES or not schema(op).is_functional


def is_view(op: str) -> bool:
    """Whether the overload's results share the memory of its first argument."""
    if op in _UNDECLARED_VIEWS:
        return True
    returns = overload(op)._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


_UNDECLARED_VIEWS = frozenset(("aten._unsafe_view.default",))

__all__ = ["HIDDEN_WRITES", "FunctionalForm", "Schema", "functional_form", "is_view", "writes"]

"""What a program computed under one of torch_xla's global downcasts, beside what it computes now: two Plans of one
Graph that differ in their storage map (law N11) alone, and for each line what differs, with the cause.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from truecast import dtypes
from truecast.diagnose.flow import Flow, Step
from truecast.dtypes import DType
from truecast.errors import UsageError
from truecast.graph import Node, Value
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import resolve
from truecast.ops import lookup
from truecast.sites import Site

# The name that a person gives, the variable that it stands for, and the policy that computes as it did.
FLAGS: dict[str, tuple[str, str]] = {
    "xla-use-bf16": ("XLA_USE_BF16", "legacy-xla-bf16"),
    "xla-downcast-bf16": ("XLA_DOWNCAST_BF16", "legacy-xla-downcast-bf16"),
}
_Key = tuple[str, int | str]
_EMPTY = frozenset(("aten.empty.memory_format", "aten.empty_strided.default", "aten.empty_like.default"))
_PARAMETERS: _Key = ("parameter", "")  # all parameters are one cause


@dataclass(frozen=True, slots=True)
class Change:
    """A node that computes in `now` and computed in `then`, and the value whose dtype makes the difference."""

    node: Node
    then: DType
    now: DType
    value: Value


@dataclass(frozen=True, slots=True)
class Cause:
    """What made a dtype that the flag would have narrowed, a source line or the parameters: its first step, and all
    that changed because of it."""

    step: Step
    changes: tuple[Change, ...]
    is_parameter: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A source line that computes differently: its site, how many of its operations do, in which dtypes, and because of
    what ("the parameters", "train.py:30")."""

    site: Site
    operations: int
    then: tuple[DType, ...]
    now: tuple[DType, ...]
    because: tuple[str, ...]


class Migration:
    """The comparison of a recorded program with itself under `flag`, one of FLAGS. Raises UsageError for another."""

    def __init__(self, flow: Flow, flag: str) -> None:
        if flag not in FLAGS:
            raise UsageError(f"there is no migration from {flag!r}", values=f"there are {', '.join(FLAGS)}")
        self.flow = flow
        self.variable, name = FLAGS[flag]
        policy = Numerics.preset(name).with_settings(on_mismatch="cast")  # the recording went on with casts as well
        self._held = {dtypes.of(a): dtypes.of(b) for a, b in policy.storage}
        self._then = resolve(flow.graph, policy)
        self._now = resolve(flow.graph, replace(policy, storage=()))

    def held(self, dtype: DType) -> DType:
        """The dtype in which the device held `dtype` under the flag."""
        if dtype.category == "complex":  # a complex number was two of its components
            return dtype
        return self._held.get(dtype, dtype)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The nodes that compute or return another dtype, in program order.

        None of them is a node all of whose operands and results the flag left alone (where only its opmath differs,
        the result is the same, bit for bit: law N3); what only fills parameters before the first step, and an
        optimizer's step count, which are the host's; memory without contents.
        """
        return tuple(self._changes())

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """The changes by what made their dtype, in the order in which the causes come first."""
        found: dict[_Key, tuple[Step, list[Change]]] = {}
        for change, key in zip(self.changes, self._keys, strict=True):
            found.setdefault(key, (self.flow.origin(change.value), []))[1].append(change)
        return tuple(Cause(step, tuple(made), key == _PARAMETERS) for key, (step, made) in found.items())

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The source lines that compute differently, by file in order of appearance, then by number."""
        found: dict[tuple[str, int], list[tuple[Change, _Key]]] = {}
        for change, key in zip(self.changes, self._keys, strict=True):
            if change.node.site.file:
                found.setdefault(_line(change.node.site), []).append((change, key))
        files = list(dict.fromkeys(file for file, _ in found))
        return tuple(
            Line(
                made[0][0].node.site,
                len(made),
                tuple(dict.fromkeys(change.then for change, _ in made)),
                tuple(dict.fromkeys(change.now for change, _ in made)),
                tuple(dict.fromkeys(_named(key) for _, key in made)),
            )
            for _, made in sorted(found.items(), key=lambda item: (files.index(item[0][0]), item[0][1]))
        )

    @cached_property
    def _keys(self) -> tuple[_Key, ...]:
        """The cause of each change. A gradient's dtype mirrors its forward operation's; an optimizer's state follows
        the parameters."""
        owned = self._from_parameters()

        def key_of(value: Value) -> _Key:
            return _PARAMETERS if value.name in owned else _key(self.flow.origin(value))

        lines: dict[tuple[str, int], _Key] = {}
        for node in self.flow.graph.nodes:
            wide = (v for v in (*node.outputs, *node.inputs) if v is not None and self._differs(v))
            if node.site.phase == "forward" and (value := next(wide, None)) is not None:
                lines.setdefault(_line(node.site), key_of(value))
        found: list[_Key] = []
        for change in self.changes:
            key, site = key_of(change.value), change.node.site
            if site.phase != "forward" and self.flow.origin(change.value).site.phase != "forward":
                key = lines.get(_line(site), _PARAMETERS if _PARAMETERS in found else key)
            found.append(key)
        return tuple(found)

    def _changes(self) -> Iterator[Change]:
        filling = self._filling()
        for (node, before), (_, after) in zip(self._then.pairs(), self._now.pairs(), strict=True):
            row = lookup(node.op)
            if node.name in filling or (row is not None and row.kind == "movement") or node.op in _EMPTY:
                continue
            result = next((v for v in node.outputs if v is not None), None)
            if result is not None and not self._differs(result):  # its statistics (a logsumexp) may, and are its own
                result = None
            if result is not None and not (node.site.phase == "optimizer" and not result.shape):
                yield Change(node, before.compute or self.held(result.dtype), after.compute or result.dtype, result)
            elif result is None and _decides(node) and before.compute is not after.compute:
                operand = next((v for v in node.inputs if self._differs(v)), None)
                if operand is not None and before.compute is not None and after.compute is not None:
                    yield Change(node, before.compute, after.compute, operand)

    def _differs(self, value: Value) -> bool:
        return self.held(value.dtype) is not value.dtype

    def _from_parameters(self) -> set[str]:
        """The values whose dtype a parameter of that dtype decided, alone or with others."""
        found = set(self.flow.observations.parameters)
        found.update(entry.value.name for entry in self.flow.graph.inputs if entry.kind == "parameter")
        for node in self.flow.graph.nodes:
            for value in node.outputs:
                if value is not None and any(v.dtype is value.dtype and v.name in found for v in node.inputs):
                    found.add(value.name)
        return found

    def _filling(self) -> set[str]:
        """The nodes before the first step whose results end in parameters' contents and nowhere else, and what is made
        and not read (initialization replaces it)."""
        found: set[str] = set()
        parameters, consumers = self.flow.observations.parameters, self.flow.consumers
        before = itertools.takewhile(lambda node: node.site.phase == "forward", self.flow.graph.nodes)
        for node in reversed(list(before)):
            readers = [reader.name for v in node.outputs if v is not None for reader in consumers.get(v.name, ())]
            row = lookup(node.op)
            unread = not readers and row is not None and row.kind == "creation"
            if node.name in parameters or unread or (readers and found.issuperset(readers)):
                found.add(node.name)
        return found


def _decides(node: Node) -> bool:
    """Whether a node makes integers or truth values of what it reads."""
    return not any(v is not None and v.dtype.is_inexact for v in node.outputs)


def _key(step: Step) -> _Key:
    if step.why == "parameter":
        return _PARAMETERS
    return ("input", step.value.name) if step.node is None else _line(step.site)


def _line(site: Site) -> tuple[str, int]:
    return site.file, site.line


def _named(key: _Key) -> str:
    if key == _PARAMETERS:
        return "the parameters"
    return "a tensor from outside" if key[0] == "input" else f"{os.path.basename(key[0])}:{key[1]}"

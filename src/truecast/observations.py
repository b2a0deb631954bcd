"""What was seen while a Graph was recorded and that the Graph itself has no place for: which call of PyTorch's public
interface a node came from, refused operands, what a cast did to real numbers, what an optimizer step moved.

Imports the leaves and graph. Plain data: capture makes it, diagnose reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from truecast.dtypes import DType
from truecast.graph import Value
from truecast.sites import Site


@dataclass(frozen=True, slots=True)
class Call:
    """The public function that a node was dispatched by ("float", "linear"; "" if unknown), the autocast region it
    was called in (its dtype and device type; None and "" outside of any), and whether gradients were on."""

    function: str = ""
    autocast: DType | None = None
    autocast_device: str = ""
    gradients: bool = True


UNKNOWN_CALL = Call()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Operands that an operation refused; the recording went on with casts.

    op: the overload, or the public function's name where PyTorch checks before it dispatches.
    operands: the arguments that disagree, the one that gives way first. message: PyTorch's own.
    """

    op: str
    operands: tuple[tuple[str, Value], ...]
    message: str
    site: Site
    call: Call


@dataclass(frozen=True, slots=True)
class CastEffect:
    """What a cast to a narrower dtype did to the numbers at hand: how many distinct ones there were and are left,
    how many finite ones became infinite; `ordered`: they form an ascending or descending sequence."""

    distinct: int
    left: int
    overflowed: int
    ordered: bool
    largest: float


@dataclass(frozen=True, slots=True)
class ParameterUpdate:
    """One parameter in one optimizer step. `unmoved` of the `pushed` elements (those whose gradient isn't zero) kept
    their value; both are None where the tensors have no contents. `state`: the dtypes of the optimizer's tensors for
    it that have its shape."""

    path: str
    dtype: DType
    site: Site
    pushed: int | None
    unmoved: int | None
    state: tuple[tuple[str, DType], ...]


@dataclass(frozen=True)
class Observations:
    """calls and casts: by value name. parameters: the path of the parameter whose contents a value is."""

    calls: Mapping[str, Call] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    casts: Mapping[str, CastEffect] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    updates: tuple[ParameterUpdate, ...] = ()

    def call(self, name: str) -> Call:
        """The call that the value `name` came from."""
        return self.calls.get(name, UNKNOWN_CALL)

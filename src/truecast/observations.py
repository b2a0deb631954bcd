"""What was seen while a Graph was recorded and that the Graph itself has no place for: which call of PyTorch's public
interface a node came from, refused operands, what a cast did to real numbers, what an optimizer step moved, and what
the program asked for in matters of precision.

Imports the leaves and graph. Plain data: capture makes it, diagnose reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from truecast.dtypes import DType
from truecast.graph import Value
from truecast.sites import Site


@dataclass(frozen=True, slots=True)
class Call:
    """The public function that a node was dispatched by ("float", "linear"; "" if unknown), the autocast region it
    was called in (its dtype and device type; None and "" outside of any), and whether gradients were on.
    region: the innermost region, as an index of `Observations.regions`; -1 outside of any. numpy: whether one of the
    arguments is a NumPy number."""

    function: str = ""
    autocast: DType | None = None
    autocast_device: str = ""
    gradients: bool = True
    region: int = -1
    numpy: bool = False


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
class Overflow:
    """A number that PyTorch refused to put into a tensor, since its dtype can't hold it."""

    function: str
    operand: Value
    number: float
    site: Site


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


@dataclass(frozen=True, slots=True)
class Region:
    """An autocast region as the program asked for it (device type, dtype) and whether PyTorch enabled it."""

    site: Site
    device_type: str
    dtype: DType | None
    enabled: bool


@dataclass(frozen=True, slots=True)
class Flag:
    """A process-wide precision setting that the program made: "torch.set_float32_matmul_precision", 'high'."""

    name: str
    value: str
    site: Site


@dataclass(frozen=True, slots=True)
class ScalerEvent:
    """One step in the life of scaled gradients, in order.

    what: "scale", "unscale", "step" and "update" are the scaler's methods; "change" is a write into a gradient that is
    still scaled, "optimizer" an optimizer's step that no scaler called. asked, enabled: whether the scaler was to be on
    and is. half: the float16 parameters of the optimizer at hand.
    """

    what: Literal["scale", "unscale", "step", "update", "change", "optimizer"]
    site: Site
    asked: bool = True
    enabled: bool = True
    half: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CustomFunction:
    """A torch.autograd.Function that was applied: where first, and whether its forward is decorated with custom_fwd."""

    name: str
    site: Site
    has_policy: bool


@dataclass(frozen=True, slots=True)
class NumpyBirth:
    """A tensor made of NumPy's numbers. form: "a NumPy array" or "a NumPy scalar"."""

    form: str
    site: Site


@dataclass(frozen=True, slots=True)
class DtypeChange:
    """Something that lasts and whose dtype is another than it was. what: "parameter", "buffer", or the name of an
    optimizer's tensor; when: "in the step" or "between two steps"; site: the step at which it shows."""

    what: str
    path: str
    before: DType
    after: DType
    when: str
    site: Site


@dataclass(frozen=True)
class Observations:
    """calls and casts: by value name. parameters: the path of the parameter whose contents a value is. custom: the
    name of the custom Function in whose forward or backward a value was computed; functions: those, by name. numpy:
    by value name. devices: the device types on which products were computed."""

    calls: Mapping[str, Call] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    casts: Mapping[str, CastEffect] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    updates: tuple[ParameterUpdate, ...] = ()
    regions: tuple[Region, ...] = ()
    flags: tuple[Flag, ...] = ()
    scaling: tuple[ScalerEvent, ...] = ()
    functions: Mapping[str, CustomFunction] = field(default_factory=dict)
    custom: Mapping[str, str] = field(default_factory=dict)
    numpy: Mapping[str, NumpyBirth] = field(default_factory=dict)
    changes: tuple[DtypeChange, ...] = ()
    devices: frozenset[str] = frozenset()
    overflows: tuple[Overflow, ...] = ()

    def call(self, name: str) -> Call:
        """The call that the value `name` came from."""
        return self.calls.get(name, UNKNOWN_CALL)

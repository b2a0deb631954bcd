"""The hot path: how an operation on the device becomes a Record, and its results tensors.

What each overload needs besides (a view, a write, a copy between devices) is handlers.py's affair.
"""

from __future__ import annotations

from typing import Any

import torch

from truecast.capture import aliasing, torch_backend, torch_seam
from truecast.capture.aliasing import Alias
from truecast.capture.device.contents import checks_of
from truecast.capture.device.contracts import broken_contract
from truecast.capture.device.held import refuse_unheld
from truecast.capture.device.inference import OnlyOnCpu, SizedByContents, ask_the_cpu, infer
from truecast.capture.device.lowered_graph import of_one
from truecast.capture.device.scalars import changing
from truecast.capture.device.state import state
from truecast.capture.device.tensor import PjrtTensor
from truecast.capture.device.values import Lazy, Meta, Record, ScalarSlot, Slot, Spec
from truecast.errors import UnsupportedError
from truecast.ops.operands import draws_random_bits
from truecast.ops.schema import schema

Recorded = tuple[Spec, tuple[Lazy | None, ...]]
_NUMBERS = frozenset((bool, int, float, complex))
_PLACEMENT = frozenset(("device", "layout", "pin_memory", "non_blocking"))
_FRAMES_INSIDE = 2  # a handler and handlers.dispatch stand between a Recorder and the program, at least


class OffDevice(Exception):
    """The operation runs on the CPU. counted: because it has no lowering, not because of what it asks for."""

    def __init__(self, counted: bool) -> None:
        self.counted = counted


class Recorder:
    """Records calls of one functional overload. specs: what is known of them, by call; for one that
    leaves the device, OffDevice's `counted`. liftable, ranged: where numbers are that may change (law N6), and where
    those that may while they are in range."""

    __slots__ = ("func", "liftable", "name", "plain", "ranged", "specs")

    def __init__(self, func: Any) -> None:
        self.func = func
        self.name = op_name(func)
        self.liftable, self.ranged = changing(self.name)
        self.plain = _plain(self.name)
        self.specs: dict[tuple[Any, ...], Spec | bool] = {}

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recorded:
        """The Spec of the call and its values. Raises OffDevice if only the CPU can run it."""
        key: list[Any] = []
        operands: list[Lazy] = []
        numbers: list[Any] = []
        liftable, ranged, plain = self.liftable, self.ranged, self.plain
        for index, argument in enumerate(args):
            if type(argument) is PjrtTensor:
                alias = argument._alias
                key.append(argument._meta)
                operands.append(alias.value if alias.parent is None else lazy_of(argument))
            elif index in plain:
                key.append(tuple(argument) if type(argument) is list else argument)
            elif index in liftable and type(argument) in _NUMBERS:
                key.append(type(argument))
                numbers.append(argument)
            else:
                _take(argument, index in ranged and ranged[index](argument, args), key, operands, numbers)
        if kwargs:
            for name, argument in kwargs.items():
                if name not in _PLACEMENT:
                    key.append(name)
                    lifts = name in liftable or (name in ranged and ranged[name](argument, args))
                    _take(argument, lifts, key, operands, numbers)
        found = tuple(key)
        spec = self.specs.get(found)
        if spec is None:
            spec = self.specs[found] = self._new(args, kwargs, operands, tuple(numbers))
        if type(spec) is bool:
            raise OffDevice(spec)
        assert type(spec) is Spec
        if spec.violation is not None:
            spec.violation.judge(operands)
        words = _draw(args, kwargs) if spec.draws else None
        record = Record(spec, tuple(operands), tuple(numbers), state.tracker.here(_FRAMES_INSIDE), words)
        outputs = record.outputs
        if spec.bounds:
            _guard(record)
        state.tape.append(record)
        return spec, outputs

    def _lifts(self, place: Any, argument: Any, args: tuple[Any, ...]) -> bool:
        """Whether a number at that place of a call is none of its Spec's."""
        return place in self.liftable or (place in self.ranged and self.ranged[place](argument, args))

    def _new(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Lazy], numbers: tuple[Any, ...]
    ) -> Spec | bool:
        shape = _Template()
        template = tuple([shape.of(a, self._lifts(i, a, args)) for i, a in enumerate(args)])
        named = tuple(
            [(name, shape.of(a, self._lifts(name, a, args))) for name, a in kwargs.items() if name not in _PLACEMENT]
        )
        metas = tuple(shape.metas)
        for argument in (*args, *kwargs.values()):
            if isinstance(argument, torch.dtype):
                refuse_unheld(argument, f"{self.name} gives", state.tracker.here().site())
        violation = broken_contract(self.name, template, named, metas, numbers)
        if violation is not None:
            violation.judge(given)
        operands = metas if violation is None or violation.agreed is None else violation.agreed
        concrete = with_numbers(template, numbers), {name: with_numbers(a, numbers) for name, a in named}
        try:
            outputs = infer(self.func, *concrete, operands)
        except SizedByContents:
            return False
        except OnlyOnCpu:
            return True
        for output in outputs:
            if output is not None:
                refuse_unheld(output.dtype, f"{self.name} gives", state.tracker.here().site())
        spec = Spec(self.name, template, named, metas, tuple(outputs))
        spec.violation = violation
        spec.bounds = checks_of(spec)
        graph = of_one(spec, numbers)
        try:
            if not state.tape.executor.supports(graph, state.tape.policy):
                return True
        except (TypeError, ValueError, AssertionError):  # JAX's, or a rule's: a fake kernel took what none computes
            ask_the_cpu(self.func, *concrete, metas)
            raise
        spec.draws = draws_random_bits(graph.nodes[0])
        return spec


def _take(argument: Any, liftable: bool, key: list[Any], operands: list[Lazy], numbers: list[Any]) -> None:
    """Adds an argument of a call to what its Spec is found by, to its operands, to its numbers."""
    kind = type(argument)
    if kind is PjrtTensor:
        key.append(argument._meta)
        operands.append(lazy_of(argument))
    elif liftable and kind in _NUMBERS:
        key.append(kind)
        numbers.append(argument)
    elif kind is list or kind is tuple:
        key.append(len(argument))
        for item in argument:
            _take(item, liftable, key, operands, numbers)
    elif isinstance(argument, torch.Tensor):
        _take(brought(argument), False, key, operands, numbers)
    elif kind is torch_backend.PlainGenerator:
        key.append(kind)
    elif kind is float:  # 0.0 and -0.0 are equal keys of different meaning
        key.append((kind, argument.hex()))
    else:  # 1, 1.0 and True are equal keys of different meaning
        key.append((kind, argument))


class _Template:
    """The arguments of a call with Slots for tensors and liftable numbers, in the order in which _take adds them."""

    def __init__(self) -> None:
        self.metas: list[Meta] = []
        self.numbers = 0

    def of(self, argument: Any, liftable: bool) -> Any:
        if isinstance(argument, torch.Tensor):
            self.metas.append(brought(argument)._meta)
            return Slot(len(self.metas) - 1)
        if liftable and type(argument) in _NUMBERS:
            self.numbers += 1
            return ScalarSlot(self.numbers - 1)
        if isinstance(argument, list | tuple):
            return tuple([self.of(item, liftable) for item in argument])
        return None if isinstance(argument, torch.Generator) else argument


def with_numbers(argument: Any, numbers: tuple[Any, ...]) -> Any:
    """`argument` with its ScalarSlots replaced by numbers."""
    if type(argument) is ScalarSlot:
        return numbers[argument.index]
    if isinstance(argument, tuple):
        return tuple([with_numbers(a, numbers) for a in argument])
    return argument


def brought(tensor: torch.Tensor) -> PjrtTensor:
    """A CPU tensor among operands of the device: only a 0-dim one may be, as on every PyTorch device."""
    if isinstance(tensor, PjrtTensor):
        return tensor
    if tensor.device.type == "cpu" and tensor.dim() == 0:
        return state.host.upload(tensor)
    if tensor.layout is not torch.strided:
        raise UnsupportedError(
            f"a {tensor.layout} tensor can't be an operand on the pjrt device",
            why="XLA has dense arrays only",
            help="convert it with .to_dense()",
        )
    raise RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{state.shown} and {tensor.device}!"
    )


def _draw(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    """Two random words of 32 bits from the call's CPU generator, torch's default one if it has none (law N8)."""
    generator = next((a for a in (*args, *kwargs.values()) if type(a) is torch_backend.PlainGenerator), None)
    with torch_seam.below_modes():
        drawn = torch.empty(2, dtype=torch.int64, device="cpu").random_(0, 1 << 32, generator=generator)
        words: list[int] = drawn.tolist()
        return words


def op_name(func: Any) -> str:
    return f"{func.namespace}.{func._opname}.{func._overloadname}"


# Types of arguments of which equal ones mean the same: no number that may be 1, 1.0 or True.
_PLAIN = ("int", "bool", "List[int]", "List[bool]")
_PLAIN_TYPES = frozenset((*_PLAIN, *(f"Optional[{name}]" for name in _PLAIN)))


def _plain(op: str) -> frozenset[int]:
    """Positions of arguments that are shapes, dimensions or flags."""
    return frozenset(index for index, parameter in enumerate(schema(op).parameters) if parameter.type in _PLAIN_TYPES)


# ---- values and tensors --------------------------------------------------------------------------------------


def lazy_of(tensor: PjrtTensor) -> Lazy:
    """The value that the tensor holds now; records the view operations again if its memory was written since."""
    alias = tensor._alias
    value: Lazy = alias.value
    if alias.parent is None or (not value.lost and alias.version == alias.root.version):
        return value
    _forget_lost(alias)
    return aliasing.read(alias, emit)


def write(tensor: PjrtTensor, value: Lazy) -> None:
    """The tensor's memory now holds `value`, of the tensor's own dtype and shape."""
    _forget_lost(tensor._alias)
    aliasing.write(tensor._alias, value, emit)


def _forget_lost(alias: Alias[Lazy]) -> None:
    """Each view on the way to the memory whose value was lost is to be made again before it is used. One in between
    can be lost where one on either side of it is not."""
    link = alias
    while link.parent is not None:
        if link.value.lost:
            link.version = -1
        link = link.parent


_emitted: dict[tuple[Any, ...], Spec] = {}


def emit(
    op: str, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...], dtype: Any, shape: tuple[int, ...]
) -> Lazy:
    """One functional operation among Lazy values and literals: what aliasing.py asks for."""
    operands = tuple([a for a in args if type(a) is Lazy])
    known = (op, kwargs, dtype, shape, *[a.meta if type(a) is Lazy else (type(a), a) for a in args])
    spec = _emitted.get(known)
    if spec is None:
        slots = iter(range(len(operands)))
        template = tuple([Slot(next(slots)) if type(a) is Lazy else a for a in args])
        metas = tuple([a.meta for a in operands])
        spec = _emitted[known] = Spec(op, template, kwargs, metas, (Meta.dense(dtype, tuple(shape)),))
    return emit_spec(spec, operands)


def emit_spec(spec: Spec, operands: tuple[Lazy, ...]) -> Lazy:
    record = Record(spec, operands, (), state.tracker.here())
    result = record.outputs[0]
    state.tape.append(record)
    assert result is not None
    return result


def _guard(record: Record) -> None:
    """Records what tells whether the operands hold what `record` demands. Where each operation runs at once, they are
    judged here."""
    state.guards.add(record, state.tape.counters.operations, emit, state.tape.root)
    if state.tape.eager:
        state.host.judge(waits=True)


def demand(op: str, operand: PjrtTensor, checks: tuple[Any, ...]) -> None:
    """Guards what an operation that is not recorded itself demands of its operand."""
    value = lazy_of(operand)
    spec = Spec(op, (Slot(0),), (), (value.meta,), ())
    spec.bounds = checks
    _guard(Record(spec, (value,), (), state.tracker.here()))


def cast(value: Lazy, dtype: torch.dtype) -> Lazy:
    return emit("aten._to_copy.default", (value,), (("dtype", dtype),), dtype, value.shape)


def fresh(meta: Meta, value: Lazy) -> PjrtTensor:
    """A tensor in memory of its own that holds `value`."""
    return PjrtTensor.make(meta, state.tape.root(value, meta.layout))


def fresh_results(spec: Spec, values: tuple[Lazy | None, ...]) -> list[PjrtTensor | None]:
    return [
        None if meta is None or value is None else fresh(meta, value)
        for meta, value in zip(spec.outputs, values, strict=True)
    ]


def shaped(func: Any, made: list[Any]) -> Any:
    """Results as the schema returns them: a tensor, a list, a tuple."""
    returns = func._schema.returns
    if len(returns) == 1:
        return made if str(returns[0].type).startswith("List") else made[0]
    return tuple(made) if returns else None

"""Operations that make new tensors: recorded, or run on the CPU and brought back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from truecast.capture.device import between
from truecast.capture.device.dispatch import OffDevice, Recorder, fresh_results, shaped
from truecast.capture.device.state import state
from truecast.capture.device.tensor import PjrtTensor

Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def functional(func: Any) -> Handler:
    """The handler of an overload that makes new tensors."""
    record = Recorder(func)
    single = returns_one(func)

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs and (device := kwargs.get("device")) is not None and device.type != state.device.type:
            return between.made_elsewhere(func, args, kwargs)
        try:
            spec, values = record(args, kwargs)
        except OffDevice as off:
            return state.host.on_cpu(func, args, kwargs, off.counted)
        if single:
            meta, value = spec.outputs[0], values[0]
            return None if meta is None or value is None else PjrtTensor.make(meta, state.tape.root(value, meta.layout))
        return shaped(func, list(fresh_results(spec, values)))

    return handle


def returns_one(func: Any) -> bool:
    """Whether the overload returns one tensor, in no list."""
    returns = func._schema.returns
    return len(returns) == 1 and not str(returns[0].type).startswith("List")


def on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return state.host.on_cpu(func, args, kwargs, True)

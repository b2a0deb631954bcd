"""The `pjrt` device as a user calls it: `device`, `sync`, `metrics`, `why_recompiled`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from truecast import settings
from truecast.errors import UsageError
from truecast.numerics import autocast, environment
from truecast.numerics.scope import autocast_lists

if TYPE_CHECKING:
    import torch

    from truecast.capture.device.tape import Counters
    from truecast.graph import Graph


def device(index: int = 0) -> torch.device:
    """The `pjrt` device. The first call makes it known to PyTorch: from then on `torch.device("pjrt")`, `x.to("pjrt")`
    and `torch.zeros(3, device="pjrt")` work.

    Raises UsageError for another index than 0: a process has one device.
    """
    from truecast.capture.device.registration import register
    from truecast.capture.device.state import state
    from truecast.runtime.device import DeviceExecutor
    from truecast.runtime.host_memory import keep_freed_memory

    if index:
        raise UsageError(
            "there is one pjrt device in a process", values=f"index {index}", help="tc.device(), or 'pjrt'"
        )
    if not state.registered:
        if settings.keeps_memory():
            keep_freed_memory()
        names = sorted({name for device_type in autocast.DEVICE_TYPES for name in autocast.lists(device_type)})
        register(DeviceExecutor(environment.target()), names, lambda name: autocast.lists(autocast_lists()).get(name))
    return state.device


def sync(wait: bool = False) -> None:
    """Runs what is pending on the device; with `wait`, returns when it has been computed.

    Raises the first error of an operation that failed; all others have their values. Contents that an operation
    refuses (an index out of bounds) raise here with `wait`, else at the next call or where a value is read.
    """
    from truecast.capture.device.state import state

    if not state.registered:
        return
    failures = state.tape.run()
    if wait:
        state.tape.wait()
    if failures:
        raise failures[0].error
    state.host.judge(waits=wait)


def pending(tensors: Sequence[torch.Tensor] = ()) -> Graph:
    """The Graph that computes tensors of the device from what is there already; without any, all that is pending.

    Raises UsageError where nothing has to be computed.
    """
    from truecast.capture.device.dispatch import lazy_of
    from truecast.capture.device.state import state

    graph = None
    if state.registered:
        with state.tape.lock:
            graph = state.tape.pending_graph([lazy_of(tensor) for tensor in tensors])
    if graph is None or not graph.outputs:
        raise UsageError(
            "nothing is pending", why="the device has computed what it was asked for", help="ask before a sync"
        )
    return graph


def metrics() -> Counters:
    """What the device has done so far in this process: operations, compiles, cache hits, transfers, fallbacks."""
    from truecast.capture.device.state import state
    from truecast.capture.device.tape import Counters

    return state.tape.counters.copy() if state.registered else Counters()


def why_recompiled(last: int = 10) -> list[str]:
    """Why the last programs of the device were compiled, the newest last: what differs from the nearest one."""
    from truecast.capture.device.state import state

    return list(state.tape.log.reasons)[-last:] if state.registered else []

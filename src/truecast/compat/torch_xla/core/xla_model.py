"""torch_xla.core.xla_model, which scripts call `xm`: one process, one device.

What torch_xla exchanges between devices is here what one device makes of it alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

import torch
from torch.utils import _pytree as pytree

import truecast.compat.torch_xla as torch_xla
from truecast.compat import steps
from truecast.compat.missing import attribute_of
from truecast.compat.placement import XLA
from truecast.compat.torch_xla import _XLAC, runtime

REDUCE_SUM, REDUCE_MUL, REDUCE_AND, REDUCE_OR, REDUCE_MIN, REDUCE_MAX = "sum", "mul", "and", "or", "min", "max"

__getattr__ = attribute_of(__name__)

# ---- devices and ordinals


def xla_device(n: int | None = None, devkind: str | None = None) -> torch.device:
    """The XLA device. Raises IndexError for another index than 0."""
    return torch_xla.device(n)


def get_xla_supported_devices(devkind: str | None = None, max_devices: int | None = None) -> list[str]:
    """The names of the devices of this process: ["xla:0"]."""
    return [str(XLA)][:max_devices]


def xla_real_devices(devices: Sequence[Any] | None = None) -> list[str]:
    """The devices by the kind of their hardware: ["CPU:0"]."""
    return torch_xla.real_devices()


def xla_device_hw(device: Any) -> str:
    """The kind of hardware of a device: "CPU"."""
    return runtime.device_type()


def is_xla_tensor(tensor: torch.Tensor) -> bool:
    """Whether a tensor is on the XLA device."""
    return tensor.device.type == "xla"


def get_ordinal(defval: int = 0) -> int:
    return runtime.global_ordinal()


def get_local_ordinal(defval: int = 0) -> int:
    return runtime.local_ordinal()


def xrt_world_size(defval: int = 1) -> int:
    return runtime.world_size()


def is_master_ordinal(local: bool = True) -> bool:
    return True


def master_print(*args: Any, fd: TextIO | None = None, local: bool = False, flush: bool = False) -> None:
    """Prints: there is one process, and it is the master."""
    print(*args, file=fd or sys.stdout, flush=flush)


# ---- steps


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """Ends a step: runs what is pending, then the step's closures."""
    torch_xla.sync(wait)


def wait_device_ops(devices: Sequence[str] = ()) -> None:
    """Returns when everything that was asked for has been computed."""
    from truecast.api.device import sync

    sync(wait=True)


def unlazy(tensors: Sequence[torch.Tensor]) -> None:
    """Returns when the tensors have been computed."""
    wait_device_ops()


def add_step_closure(closure: Callable[..., Any], args: tuple[Any, ...] = (), run_async: bool = False) -> None:
    """`closure(*args)` runs at the end of the step, when its tensors have their values; in the thread that ends it."""
    steps.add_closure(closure, args)


def reduce_gradients(optimizer: torch.optim.Optimizer, groups: Any = None, pin_layout: bool = True) -> None:
    """The mean of the gradients over all devices: of one device's, those gradients."""


def optimizer_step(
    optimizer: torch.optim.Optimizer,
    barrier: bool = False,
    optimizer_args: dict[str, Any] | None = None,
    groups: Any = None,
    pin_layout: bool = True,
) -> Any:
    """`optimizer.step(**optimizer_args)`, and with `barrier` the end of the step. Returns what it returned."""
    reduce_gradients(optimizer, groups, pin_layout)
    result = optimizer.step(**(optimizer_args or {}))
    if barrier:
        torch_xla.sync()
    return result


# ---- between processes: there is one


def rendezvous(tag: str, payload: bytes = b"", replicas: Sequence[int] = ()) -> list[bytes]:
    """The payloads of all processes that came to the rendezvous: this one's."""
    if not isinstance(payload, bytes):
        raise TypeError(f"`payload` must be bytes, not {type(payload)}")
    torch_xla.sync()
    return [payload]


def xla_rendezvous(payload: bytes = b"", ordinals: Sequence[int] | None = None, tag: str | None = None) -> list[bytes]:
    return rendezvous(tag or "", payload)


def mesh_reduce(tag: str, data: Any, reduce_fn: Callable[[list[Any]], Any]) -> Any:
    """`reduce_fn` of the data of all processes: of this one's."""
    to_cpu = pytree.tree_map(lambda leaf: leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf, data)
    return reduce_fn([to_cpu])


def all_reduce(
    reduce_type: str, inputs: Any, scale: float = 1.0, groups: Any = None, pin_layout: bool = True, cctx: Any = None
) -> Any:
    """What all devices hold, reduced: a copy of a tensor, a list of tensors itself; not scaled, as in torch_xla."""
    return inputs.clone() if isinstance(inputs, torch.Tensor) else inputs


def all_gather(value: torch.Tensor, dim: int = 0, groups: Any = None, output: Any = None, **options: Any) -> Any:
    """What all devices hold, side by side along `dim`: a copy of the tensor."""
    return value.clone() if output is None else output.copy_(value)


def do_on_ordinals(target: Callable[..., Any], data: Any = (), ordinals: Sequence[int] = (0,)) -> Any:
    """`target(*data)` on those ordinals."""
    return target(*data) if 0 in ordinals else None


def broadcast_master_param(model: torch.nn.Module) -> None:
    """Every process has the master's parameters: it is the only one."""
    torch_xla.sync()


# ---- data


def _on_cpu(leaf: Any) -> Any:
    return leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf


def save(data: Any, file_or_path: Any, master_only: bool = True, global_master: bool = False) -> None:
    """torch.save of the data with its tensors on the CPU, where torch.load finds them on any machine."""
    torch.save(pytree.tree_map(_on_cpu, data), file_or_path)


def send_cpu_data_to_device(datas: Any, device: Any, input_sharding: Any = None) -> Any:
    """The tensors in nests of lists, tuples and dicts on the device; one tensor by itself becomes a list of it."""
    if input_sharding is not None:
        raise NotImplementedError("sharded input is not provided: a process has one device")
    nest = [datas] if isinstance(datas, torch.Tensor) else datas
    return pytree.tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, nest)


# ---- random numbers: those of torch's CPU generator, which the device draws from (law N8)

_MOST_STATES = 1024
_states: OrderedDict[int, torch.Tensor] = OrderedDict()


def get_rng_state(device: Any = None) -> int:
    """A number that stands for where the random numbers are; set_rng_state goes back there."""
    state = torch.get_rng_state()
    number = int.from_bytes(hashlib.blake2b(state.numpy().tobytes(), digest_size=7).digest(), "big")
    _states[number] = state
    if len(_states) > _MOST_STATES:
        _states.popitem(last=False)
    return number


def set_rng_state(seed: int, device: Any = None) -> None:
    """Back to what get_rng_state returned; any other number is a seed."""
    if seed in _states:
        torch.set_rng_state(_states[seed])
    else:
        torch.manual_seed(seed)


@contextlib.contextmanager
def fork_rng(device: Any = None, enabled: bool = True) -> Iterator[None]:
    """The random numbers after the block are those that they would have been without it."""
    if not enabled:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        yield


# ---- what will run


def get_stablehlo(tensors: Sequence[torch.Tensor] | None = None) -> str:
    """The StableHLO of the program that computes the tensors; without any, of all that is pending."""
    return _XLAC._get_stablehlo(tensors or ()).decode()


class RateTracker:
    """Events a second, smoothed over time."""

    def __init__(self, smooth_factor: float | None = None) -> None:
        self._smooth = 0.4 if smooth_factor is None else smooth_factor
        self._start = self._last = time.time()
        self._total = self._new = 0.0
        self._rate: float | None = None

    def add(self, count: float) -> None:
        self._new += count

    def rate(self) -> float:
        """Events a second since this was asked last, mixed with the rate before it."""
        now = time.time()
        if now <= self._last:
            return self._rate or 0.0
        current = self._new / (now - self._last)
        self._rate = current if self._rate is None else (1 - self._smooth) * current + self._smooth * self._rate
        self._total, self._new, self._last = self._total + self._new, 0.0, now
        return self._rate

    def global_rate(self) -> float:
        """Events a second since the beginning."""
        passed = time.time() - self._start
        return (self._total + self._new) / passed if passed > 0 else 0.0

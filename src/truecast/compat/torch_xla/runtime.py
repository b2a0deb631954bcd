"""torch_xla.runtime: one process, one device."""

from __future__ import annotations

import torch

from truecast import settings
from truecast.compat.missing import attribute_of

__getattr__ = attribute_of(__name__)


def device_type() -> str:
    """The kind of device, as PJRT_DEVICE names it: "CPU" where it is not set."""
    return settings.pjrt_device() or "CPU"


def is_bf16_supported() -> bool:
    """Every device of XLA has bfloat16."""
    return True


def _one() -> int:
    return 1


def _zero() -> int:
    return 0


world_size = global_device_count = local_device_count = addressable_device_count = _one
global_runtime_device_count = addressable_runtime_device_count = _one
process_count = local_process_count = _one
global_ordinal = local_ordinal = process_index = host_index = _zero


def is_spmd() -> bool:
    """Whether tensors are sharded: no."""
    return False


def initialize_cache(path: str, readonly: bool = False) -> None:
    """Keeps compiled programs in the directory `path`, from the next compilation on."""
    if readonly:
        raise NotImplementedError("a cache of compiled programs that is only read is not provided; readonly=False is")
    settings.keep_programs_in(path)


def get_num_cached_compilation_graph() -> int:
    """How many different programs this process has made."""
    from truecast.api.device import metrics

    return metrics().programs


def runtime_device_attributes(device: str) -> dict[str, object]:
    """What is known of a device."""
    return {"name": str(torch.device(device)), "kind": device_type()}

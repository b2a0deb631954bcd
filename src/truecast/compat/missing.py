"""Names of torch_xla that the layer does not provide, and what to use instead, as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ONE_DEVICE = "a process has one device here; run on one, or use torch.distributed on the CPU for what must communicate"
_SHARDING = f"sharding is not provided: {_ONE_DEVICE}"

# By "module" or "module.name" below torch_xla.
INSTEAD: dict[str, str] = {
    "amp.GradScaler": "bfloat16 has float32's range and needs no loss scaling: call backward() and step() as they are",
    "amp.custom_fwd": "torch.amp.custom_fwd(device_type='xla')",
    "amp.custom_bwd": "torch.amp.custom_bwd(device_type='xla')",
    "core.functions": _ONE_DEVICE,
    "core.xla_builder": "tc.call_jax runs any JAX function as an operation",
    "core.xla_op_registry": "tc.call_jax runs any JAX function as an operation",
    "core.xla_model.all_to_all": _ONE_DEVICE,
    "core.xla_model.collective_permute": _ONE_DEVICE,
    "core.xla_model.optimization_barrier_": "torch.utils.checkpoint keeps what is computed twice apart",
    "core.xla_model.reduce_scatter": _ONE_DEVICE,
    "core.xla_model.get_memory_info": "truecast.metrics() counts bytes that cross; device memory is not measured",
    "core.xla_model.set_replication": _ONE_DEVICE,
    "debug.profiler": "torch.profiler, or jax.profiler around the script",
    "distributed.fsdp": _SHARDING,
    "distributed.spmd": _SHARDING,
    "distributed.data_parallel": _ONE_DEVICE,
    "distributed.xla_backend": _ONE_DEVICE,
    "distributed.zero_redundancy_optimizer": "torch.optim's optimizers: with one device there is nothing to divide",
    "experimental.assume_pure": "a plain call: recording is what it saves, and the compiled program is reused anyway",
    "experimental.custom_kernel": "tc.call_jax runs a Pallas kernel as an operation",
    "experimental.fori_loop": "a Python loop",
    "experimental.gradient_accumulation": "several backward() before one optimizer step",
    "experimental.plugins": "PJRT_DEVICE=CPU, TPU, CUDA or NEURON; `truecast doctor` says which are here",
    "experimental.scan": "a Python loop over the layers",
    "experimental.xla_sharding": _SHARDING,
    "runtime.use_spmd": _SHARDING,
    "stablehlo": "truecast.lower(function, *args).stablehlo, and its save(path)",
    "stablehlo.exported_program_to_stablehlo": "truecast.lower(function, *args).stablehlo",
    "tf_saved_model_integration": "truecast.lower(function, *args).save(path)",
    "utils.checkpoint": "torch.utils.checkpoint",
    "utils.serialization": "xm.save and torch.load",
    "utils.utils": "Python's standard library",
}
_GENERALLY = "use what plain PyTorch has for it: most programs need none of torch_xla but its device and sync"


def help_for(path: str) -> str:
    """What to use instead of `path` ("core.xla_model.all_to_all"): its own row, or the nearest one above it."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        found = INSTEAD.get(".".join(parts[:end]))
        if found is not None:
            return found
    return _GENERALLY


def attribute_of(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module: raises AttributeError for what it does not provide, with what to use instead."""
    path = module.partition("compat.")[2]

    def missing(name: str) -> Any:
        if name.startswith("__"):  # what Python and its tools look for
            raise AttributeError(f"module {path!r} has no attribute {name!r}")
        whole = f"{path}.{name}"
        raise AttributeError(
            f"{whole} is not provided by truecast; instead: {help_for(whole.partition('.')[2])} "
            "(docs/torch_xla.md lists what is provided)"
        )

    return missing

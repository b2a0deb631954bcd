"""What the layer's modules provide, and what they say of the names that they don't."""

from __future__ import annotations

import importlib

import pytest
import torch

from truecast.compat.missing import INSTEAD

PROVIDED = {
    "torch_xla": "device devices device_count real_devices sync step compile launch manual_seed __version__",
    "torch_xla.core.xla_model": (
        "xla_device get_xla_supported_devices xla_device_hw xla_real_devices is_xla_tensor mark_step optimizer_step "
        "reduce_gradients master_print is_master_ordinal save get_ordinal get_local_ordinal xrt_world_size "
        "add_step_closure rendezvous mesh_reduce all_reduce all_gather wait_device_ops unlazy do_on_ordinals "
        "send_cpu_data_to_device set_rng_state get_rng_state fork_rng get_stablehlo broadcast_master_param RateTracker "
        "REDUCE_SUM REDUCE_MUL REDUCE_AND REDUCE_OR REDUCE_MIN REDUCE_MAX"
    ),
    "torch_xla.runtime": (
        "device_type world_size global_ordinal local_ordinal process_index process_count global_device_count "
        "local_device_count addressable_device_count is_bf16_supported is_spmd initialize_cache"
    ),
    "torch_xla.amp": "autocast syncfree",
    "torch_xla.amp.syncfree": "SGD Adam AdamW",
    "torch_xla.distributed.parallel_loader": "MpDeviceLoader ParallelLoader PerDeviceLoader",
    "torch_xla.distributed.xla_multiprocessing": "spawn MpModelWrapper MpSerialExecutor",
    "torch_xla.debug.metrics": (
        "counter_names counter_value metric_names metric_data metrics_report short_metrics_report clear_all "
        "clear_counters clear_metrics executed_fallback_ops"
    ),
    "torch_xla.experimental": "eager_mode is_eager_mode eager_mode_context",
    "torch_xla.experimental.eager": "eager_mode is_eager_mode eager_mode_context",
    "torch_xla.backends": "set_mat_mul_precision get_mat_mul_precision",
    "torch_xla._XLAC": "_get_xla_tensors_hlo _get_xla_tensors_text _get_stablehlo",
}


@pytest.mark.parametrize("module", PROVIDED)
def test_modules_are_there_by_their_names(module: str, layer: None) -> None:
    found = importlib.import_module(module)
    for name in PROVIDED[module].split():
        assert getattr(found, name) is not None
    parent, _, name = module.rpartition(".")
    assert not parent or getattr(importlib.import_module(parent), name) is found


def test_every_form_of_import(layer: None) -> None:
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.parallel_loader as pl
    from torch_xla import runtime as xr
    from torch_xla.amp import autocast, syncfree

    assert torch_xla.core.xla_model is xm
    assert (xr.world_size(), xm.xrt_world_size(), xm.get_ordinal(), torch_xla.device_count()) == (1, 1, 0, 1)
    assert str(xm.xla_device()) == "xla:0" and torch_xla.devices() == [torch.device("xla:0")]
    assert pl.MpDeviceLoader and autocast("xla").device == "pjrt" and issubclass(syncfree.Adam, torch.optim.Adam)
    with pytest.raises(IndexError):
        xm.xla_device(1)


def test_a_name_that_is_not_provided_says_what_to_use(layer: None) -> None:
    import torch_xla
    import torch_xla.core.xla_model as xm

    with pytest.raises(AttributeError) as known:
        _ = xm.optimization_barrier_
    assert str(known.value) == (
        "torch_xla.core.xla_model.optimization_barrier_ is not provided by truecast; instead: torch.utils.checkpoint "
        "keeps what is computed twice apart (docs/torch_xla.md lists what is provided)"
    )
    with pytest.raises(AttributeError) as unknown:
        _ = torch_xla.something
    assert str(unknown.value) == (
        "torch_xla.something is not provided by truecast; instead: use what plain PyTorch has for it: most programs "
        "need none of torch_xla but its device and sync (docs/torch_xla.md lists what is provided)"
    )
    with pytest.raises(ImportError, match="cannot import name 'GradScaler'"):
        from torch_xla.amp import GradScaler  # noqa: F401
    with pytest.raises(AttributeError, match="needs no loss scaling"):
        _ = torch_xla.amp.GradScaler
    assert not hasattr(torch_xla, "__wrapped__")


def test_a_module_that_is_not_provided_says_what_to_use(layer: None) -> None:
    with pytest.raises(ModuleNotFoundError) as missing:
        import torch_xla.debug.profiler
    assert str(missing.value) == (
        "torch_xla.debug.profiler is not provided by truecast; instead: torch.profiler, or jax.profiler around the "
        "script (docs/torch_xla.md lists what is provided)"
    )
    with pytest.raises(ModuleNotFoundError, match="sharding is not provided"):
        import torch_xla.distributed.spmd.xla_sharding  # noqa: F401


def test_the_table_names_nothing_that_is_provided(layer: None) -> None:
    for path in INSTEAD:
        module, _, name = f"torch_xla.{path}".rpartition(".")
        try:
            there = importlib.import_module(module)
        except ModuleNotFoundError:
            continue  # its parent is not provided either
        assert name not in vars(there), path

"""Steps, closures, compiled regions, loaders, random numbers, metrics: torch_xla's meaning of them on one device."""

from __future__ import annotations

import io

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import truecast as tc
from truecast.capture.device.state import state

pytestmark = pytest.mark.usefixtures("layer")


def test_closures_run_in_order_when_the_step_has_run() -> None:
    import torch_xla.core.xla_model as xm

    seen: list[object] = []
    x = torch.ones(2, device="xla") * 3
    xm.add_step_closure(lambda a, b: seen.append((a.sum().item(), b)), args=(x, 1))
    xm.add_step_closure(seen.append, args=("second",), run_async=True)
    assert seen == []
    xm.mark_step()
    assert seen == [(6.0, 1), "second"]
    xm.mark_step()
    assert len(seen) == 2


def test_optimizer_step_passes_arguments_and_results() -> None:
    import torch_xla.core.xla_model as xm

    weight = torch.ones(2, device="xla").requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.5)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss

    assert xm.optimizer_step(optimizer, barrier=True, optimizer_args={"closure": closure}).item() == 2.0
    assert weight.tolist() == [0.0, 0.0]


def test_a_compiled_region_is_one_program() -> None:
    import torch_xla

    x = torch.ones(3, device="xla")
    torch_xla.sync()
    runs = tc.metrics().runs

    @torch_xla.compile
    def twice(y: torch.Tensor) -> torch.Tensor:
        return (y + 1) * 2

    assert twice.__name__ == "twice"
    out = twice(x)
    assert tc.metrics().runs == runs + 1
    assert out.tolist() == [4.0, 4.0, 4.0]
    with torch_xla.step():
        out = out + 1
    assert tc.metrics().runs == runs + 2


def test_a_full_graph_must_not_be_broken() -> None:
    import torch_xla

    x = torch.ones(3, device="xla")
    assert torch_xla.compile(lambda: x + 1, full_graph=True)().tolist() == [2.0] * 3
    with pytest.raises(RuntimeError) as broken:
        torch_xla.compile(lambda: x + (x * 2).sum().item(), full_graph=True)()
    assert str(broken.value) == (
        "torch_xla.compile(full_graph=True): 1 program ran before the end of the region; something in it needs a value "
        "(item, print, a branch on data)"
    )


def test_too_many_different_graphs_are_an_error() -> None:
    import torch_xla

    def grown(n: int) -> torch.Tensor:
        return torch.zeros(n, device="xla").sin().exp()

    limited = torch_xla.compile(grown, max_different_graphs=2)
    for n in (41, 42, 41):
        limited(n)
    with pytest.raises(RuntimeError) as refused:
        limited(43)
    assert str(refused.value) == (
        "torch_xla.compile(max_different_graphs=2): 3 different programs so far; truecast.why_recompiled() says what "
        "differs"
    )


def test_eager_mode_runs_each_operation_and_compiled_regions_do_not() -> None:
    import torch_xla
    from torch_xla.experimental import eager_mode, eager_mode_context, is_eager_mode

    x = torch.ones(3, device="xla")
    torch_xla.sync()
    with eager_mode_context(True) as before:
        assert not before and is_eager_mode() and state.tape.eager
        runs = tc.metrics().runs
        y = x + 1
        y = y * 2
        assert tc.metrics().runs == runs + 2
        z = torch_xla.compile(lambda: (y + 1) * 2)()
        assert tc.metrics().runs == runs + 3 and is_eager_mode()
    assert not is_eager_mode() and z.tolist() == [10.0] * 3
    eager_mode(True)
    eager_mode(False)
    assert not state.tape.eager


def test_what_is_pending_can_be_read() -> None:
    import torch_xla
    import torch_xla.core.xla_model as xm

    a = torch.ones(4).to("xla", torch.bfloat16)
    torch_xla.sync()
    b, _other = a * a, a - 1
    text = torch_xla._XLAC._get_xla_tensors_text([b])
    assert "aten.mul.Tensor" in text and "aten.sub" not in text
    hlo = torch_xla._XLAC._get_xla_tensors_hlo([b])
    assert hlo.startswith("HloModule") and "f32[4]{0} multiply(" in hlo
    with tc.numerics("torch_xla-2.10"):
        assert "f32" not in torch_xla._XLAC._get_xla_tensors_hlo([b])
    assert "stablehlo.multiply" in xm.get_stablehlo([b]) and "stablehlo.subtract" in xm.get_stablehlo()
    torch_xla.sync()
    with pytest.raises(tc.api.device.UsageError, match="nothing is pending"):
        xm.get_stablehlo([b])


def test_a_sync_free_step_is_skipped_on_the_device() -> None:
    from torch_xla.amp import syncfree

    for kind, options in ((syncfree.SGD, {"momentum": 0.9}), (syncfree.Adam, {}), (syncfree.AdamW, {})):
        weight = torch.ones(3, device="xla").requires_grad_()
        optimizer = kind([weight], lr=0.1, **options)
        plain = torch.ones(3).requires_grad_()
        twin = getattr(torch.optim, kind.__name__)([plain], lr=0.1, **options)
        for found in (0.0, 1.0, 0.0):
            weight.grad, plain.grad = torch.full((3,), 2.0, device="xla"), torch.full((3,), 2.0)
            optimizer.step(found_inf=torch.tensor([found], device="xla"))
            if not found:
                twin.step()
        torch.testing.assert_close(weight.detach().cpu(), plain.detach())


def test_random_numbers_go_back() -> None:
    import torch_xla
    import torch_xla.core.xla_model as xm

    torch_xla.manual_seed(3)
    first = torch.rand(2, device="xla").tolist()
    kept = xm.get_rng_state()
    second = torch.rand(2, device="xla").tolist()
    xm.set_rng_state(kept)
    with xm.fork_rng():
        assert torch.rand(2, device="xla").tolist() == second
    assert torch.rand(2, device="xla").tolist() == second
    xm.set_rng_state(3)
    assert torch.rand(2, device="xla").tolist() == first


def test_loaders_send_batches_and_end_steps() -> None:
    import torch_xla.distributed.parallel_loader as pl

    data = [{"x": torch.full((2,), float(i)), "label": i} for i in range(3)]
    loader = pl.MpDeviceLoader(data, torch.device("xla"), batches_per_execution=2)
    assert len(loader) == 3
    for _ in range(2):
        batches = list(loader)
        assert [b["x"].device.type for b in batches] == ["xla"] * 3
        assert [(b["x"][0].item(), b["label"]) for b in batches] == [(0.0, 0), (1.0, 1), (2.0, 2)]
    pairs = DataLoader(TensorDataset(torch.arange(4.0), torch.arange(4)), batch_size=2)
    para = pl.ParallelLoader(pairs, ["xla:0"])
    x, y = next(para.per_device_loader("xla:0"))
    assert (x.tolist(), y.tolist()) == ([0.0, 1.0], [0, 1])

    def failing() -> object:
        yield torch.ones(1)
        raise ValueError("from the loader")

    with pytest.raises(ValueError, match="from the loader"):
        list(pl.MpDeviceLoader(failing(), "xla"))
    with pytest.raises(ValueError, match="2 were given"):
        pl.ParallelLoader(pairs, ["xla:0", "xla:1"])


def test_what_one_process_makes_of_collectives() -> None:
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.xla_multiprocessing as xmp

    x = torch.ones(2, device="xla")
    summed = xm.all_reduce(xm.REDUCE_SUM, x)
    assert summed is not x and summed.tolist() == [1.0, 1.0]
    assert xm.all_reduce(xm.REDUCE_SUM, [x])[0] is x
    assert xm.all_gather(x).tolist() == [1.0, 1.0]
    assert xm.rendezvous("here", b"payload") == [b"payload"]
    assert xm.mesh_reduce("mean", x.sum(), lambda all: sum(all) / len(all)).item() == 2.0
    called: list[object] = []
    torch_xla.launch(lambda index, a: called.append((index, a)), args=("a",))
    xmp.spawn(lambda index: called.append(index), nprocs=1)
    assert called == [(0, "a"), 0]
    with pytest.raises(ValueError) as refused:
        xmp.spawn(print, nprocs=4)
    assert str(refused.value) == "unsupported nprocs (4): there is one device; use nprocs=1 or None"


def test_saved_data_is_the_cpus() -> None:
    import torch_xla.core.xla_model as xm

    file = io.BytesIO()
    model = torch.nn.Linear(2, 2).to("xla")
    xm.save({"state": model.state_dict(), "at": [model.weight, 7]}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["state"]["weight"].device.type == "cpu" and loaded["at"][1] == 7
    assert torch.equal(loaded["at"][0], model.weight.detach().cpu())


def test_metrics_have_torch_xlas_names() -> None:
    import torch_xla
    import torch_xla.debug.metrics as met

    met.clear_all()
    assert met.counter_names() == [] and met.metric_data("CompileTime") is None
    x = torch.arange(6.0).to("xla")
    torch_xla.sync()
    (x * 3 + 1).sum().item()
    assert met.metric_data("ExecuteTime")[0] == 1
    assert met.metric_data("OutboundData") == (1, 24, [])
    assert met.counter_value("MarkStep") == 1 and met.counter_value("nothing") is None
    report = met.metrics_report()
    assert "Metric: OutboundData\n  TotalSamples: 1\n  Accumulator: 24B\n" in report
    assert "Counter: MarkStep\n  Value: 1\n" in report
    assert met.executed_fallback_ops() == []
    assert met.short_metrics_report(["MarkStep"], ["InboundData"]).startswith("Metric: InboundData")


def test_matmul_precision_is_a_rule_of_the_policy() -> None:
    import torch_xla.backends as backends

    def made() -> str:
        graph = tc.capture(torch.matmul, torch.ones(2, 2), torch.ones(2, 2))
        (decision,) = tc.plan(graph).decisions
        return str(decision.algorithm)

    try:
        tc.set_numerics("tpu")
        assert backends.get_mat_mul_precision() == "default" and made() == "bf16_bf16_f32"
        for precision, algorithm in (("high", "bf16_bf16_f32_x3"), ("highest", "bf16_bf16_f32_x6")):
            backends.set_mat_mul_precision(precision)
            assert (backends.get_mat_mul_precision(), made()) == (precision, algorithm)
        backends.set_mat_mul_precision("default")
        assert made() == "bf16_bf16_f32"
        with pytest.raises(ValueError) as refused:
            backends.set_mat_mul_precision("low")
        assert str(refused.value) == "Invalid precision: low. Must be one of default, high, highest."
    finally:
        tc.set_numerics(None)

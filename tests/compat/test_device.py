"""The device "xla" over `pjrt`: where its name may stand, and that nothing of it is left when the layer goes."""

from __future__ import annotations

import sys
import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import truecast as tc
from truecast.capture.device.tensor import PjrtTensor
from truecast.compat.install import install, installed
from truecast.compat.placement import XLA
from truecast.errors import UsageError
from truecast.numerics import autocast

tc.device()

MADE = {
    "zeros": lambda d: torch.zeros(3, device=d),
    "randn": lambda d: torch.randn(3, device=d),
    "arange": lambda d: torch.arange(3, device=d),
    "full": lambda d: torch.full((2,), 1.5, device=d),
    "eye": lambda d: torch.eye(2, device=d),
    "randperm": lambda d: torch.randperm(3, device=d),
    "tensor": lambda d: torch.tensor([1.0, 2.0], device=d),
    "as_tensor": lambda d: torch.as_tensor([1, 2], device=d),
    "asarray": lambda d: torch.asarray([1.0], device=d),
    "to": lambda d: torch.ones(2).to(d),
    "to, dtype": lambda d: torch.ones(2).to(device=d, dtype=torch.bfloat16),
    "like": lambda d: torch.ones_like(torch.zeros(2), device=d),
    "new_zeros": lambda d: torch.zeros(2).new_zeros(3, device=d),
    "new_tensor": lambda d: torch.zeros(2).new_tensor([1.0], device=d),
    "module": lambda d: torch.nn.Linear(2, 2).to(d).weight,
    "module made there": lambda d: torch.nn.Linear(2, 2, device=d).bias,
    "buffer": lambda d: torch.nn.BatchNorm1d(2).to(d).running_mean,
}


@pytest.mark.parametrize("name", MADE)
def test_every_spelling_makes_a_tensor_of_the_device(name: str, layer: None) -> None:
    for spelling in ("xla", "xla:0", torch.device("xla"), torch.device("xla:0")):
        made = MADE[name](spelling)
        assert isinstance(made, PjrtTensor) and made.is_xla
        assert (made.device, made.device.type) == (XLA, "xla")


def test_moving_within_the_device_is_no_move(layer: None) -> None:
    x = torch.ones(2, device="xla")
    assert x.to("xla") is x and x.to(torch.device("xla:0")) is x and x.to(x.device) is x
    assert torch.zeros_like(x, device="xla").device == XLA
    assert repr(x) == "tensor([1., 1.], device='xla:0')"


def test_the_default_device(layer: None) -> None:
    with torch.device("xla"):
        assert torch.zeros(2).device == XLA
        assert torch.tensor([1.0]).device == XLA
        assert torch.get_default_device() == XLA
    assert torch.zeros(2).device.type == "cpu"


def test_there_is_one_device(layer: None) -> None:
    for wrong in (lambda: torch.zeros(2, device="xla:1"), lambda: torch.zeros(2).to("xla:1")):
        with pytest.raises(RuntimeError) as refused:
            wrong()
        assert str(refused.value) == "invalid device ordinal: xla:1. There is one XLA device in a process, xla:0"
    with pytest.raises(RuntimeError, match="found at least two devices, xla:0 and cpu!"):
        torch.ones(2, device="xla") + torch.ones(2)


def test_training_and_saving(layer: None, tmp_path) -> None:
    model = torch.nn.Linear(2, 2).to("xla")
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2, device="xla")).sum().backward()
    optimizer.step()
    assert optimizer.state[model.weight]["exp_avg"].device == XLA
    torch.save(model.state_dict(), tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt")
    assert loaded["weight"].device == XLA
    assert torch.equal(loaded["weight"].cpu(), model.weight.detach().cpu())


def test_a_module_keeps_its_parameters(layer: None) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    held = list(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to("xla")
    assert all(a is b and a.device == XLA for a, b in zip(model.parameters(), held, strict=True)) and len(held) == 3
    before = held[0].detach().cpu()
    model(torch.ones(1, 2, device="xla")).sum().backward()
    optimizer.step()
    assert not torch.equal(model.cpu()[1].weight, before) and model[1].weight is held[0]


def test_autocast_has_torch_xlas_own_list(layer: None) -> None:
    table = autocast.lists("xla")
    counts = [list(table.values()).count(policy) for policy in ("lower_precision", "float32", "promote")]
    assert counts == [21, 45, 4]
    x = torch.ones(4, 4, device="xla")
    with torch.autocast("xla", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("xla") and torch.get_autocast_dtype("xla") is torch.bfloat16
        assert (x @ x).dtype is torch.bfloat16
        assert torch.relu(x).dtype is torch.bfloat16  # on torch_xla's list, not on the CPU's
        assert torch.nn.functional.softmax(x.bfloat16(), -1).dtype is torch.float32
        assert torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]).dtype is torch.float32
        with torch.autocast("xla", enabled=False):
            assert (x @ x).dtype is torch.float32
    with torch.autocast("pjrt", dtype=torch.bfloat16):
        assert (x @ x).dtype is torch.bfloat16 and torch.relu(x).dtype is torch.float32
    assert not torch.is_autocast_enabled("xla")


def test_checkpoint_goes_on_under_the_same_autocast(layer: None) -> None:
    linear = torch.nn.Linear(4, 4).to("xla")
    x = torch.ones(2, 4, device="xla", requires_grad=True)
    with torch.autocast("xla"):
        out = checkpoint(lambda y: linear(y).relu(), x, use_reentrant=False)
    out.sum().backward()
    assert (out.dtype, x.grad.dtype, x.grad.device) == (torch.bfloat16, torch.float32, XLA)


def test_another_thread_has_its_own_autocast(layer: None) -> None:
    seen = []
    with torch.autocast("xla"):
        thread = threading.Thread(target=lambda: seen.append(torch.is_autocast_enabled("xla")))
        thread.start()
        thread.join()
    assert seen == [False]


def test_nothing_is_left_of_the_layer() -> None:
    functions = [torch.Tensor.to, torch.tensor, torch.autocast.__init__, torch.autocast.__enter__]
    functions.append(torch.is_autocast_enabled)
    with installed():
        assert torch.Tensor.to is not functions[0]
        x = torch.ones(2, device="xla")
    assert x.device == torch.device("pjrt", 0) and not x.is_xla
    now = [torch.Tensor.to, torch.tensor, torch.autocast.__init__, torch.autocast.__enter__, torch.is_autocast_enabled]
    assert now == functions
    assert not any(name.partition(".")[0] == "torch_xla" for name in sys.modules)
    with pytest.raises(ImportError):
        import torch_xla  # noqa: F401


def test_a_torch_xla_that_is_there_already_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    other = type(sys)("torch_xla")
    other.__file__ = "/elsewhere/torch_xla/__init__.py"
    monkeypatch.setitem(sys.modules, "torch_xla", other)
    with pytest.raises(UsageError) as refused:
        install()
    assert str(refused.value) == (
        "torch_xla has been imported already\n"
        "  values: from /elsewhere/torch_xla/__init__.py\n"
        "  help: install the layer before the first import of torch_xla"
    )


def test_observed_scripts_are_on_the_cpu() -> None:
    with installed("cpu"):
        x = torch.ones(2, 2, device="xla")
        assert x.device.type == "cpu" and x.to("xla") is x
        with torch.autocast("xla", dtype=torch.bfloat16):
            assert (x @ x).dtype is torch.bfloat16

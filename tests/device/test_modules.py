"""A module that moves onto the device or off it keeps its Parameter objects, as between the CPU and CUDA."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from torch import nn

from tests.device.beside import DEVICE, equal

CLOSE = 1e-6


class Tied(nn.Module):
    """A language model whose last layer has the weights of its first."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.norm(self.embed(tokens)))


def trained(model, optimizer, device, steps=3):
    tokens = torch.arange(6).view(2, 3).to(device)
    for _ in range(steps):
        optimizer.zero_grad()
        model(tokens).square().mean().backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def pair(make):
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        made.append(make())
    return made


@pytest.mark.parametrize("device", [DEVICE, "pjrt"])
def test_tied_weights_stay_tied_and_train_as_one(device):
    here, there = pair(Tied)
    weight = there.embed.weight
    optimizer = torch.optim.Adam(there.parameters(), lr=0.1)  # made before the model moves
    there.to(device)
    assert there.head.weight is there.embed.weight is weight and isinstance(weight, nn.Parameter)
    assert weight.device == DEVICE and len(list(there.parameters())) == 3
    got = trained(there, optimizer, DEVICE)
    for a, b in zip(got, trained(here, torch.optim.Adam(here.parameters(), lr=0.1), "cpu"), strict=True):
        equal(a, b, CLOSE)


def test_tied_weights_of_transformers():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=11, n_positions=8, n_embd=4, n_layer=1, n_head=1)
    model = transformers.GPT2LMHeadModel(config)
    held = list(model.parameters())
    model.to(DEVICE)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert all(a is b for a, b in zip(model.parameters(), held, strict=True))
    model(torch.ones(1, 3, dtype=torch.int64, device=DEVICE)).logits.sum().backward()
    assert model.cpu().lm_head.weight is held[0] and held[0].grad.device.type == "cpu"


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_an_optimizer_with_state_goes_on_after_its_state_is_loaded_again(name):
    options = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.1}
    here, there = pair(Tied)
    optimizers = [getattr(torch.optim, name)(m.parameters(), **options) for m in (here, there)]
    trained(here, optimizers[0], "cpu")
    trained(there, optimizers[1], "cpu")
    there.to(DEVICE)
    with pytest.raises(RuntimeError, match="found at least two devices"):  # as on CUDA: the state is the optimizer's
        trained(there, optimizers[1], DEVICE, steps=1)
    optimizers[1].load_state_dict(optimizers[1].state_dict())
    assert {t.device for s in optimizers[1].state.values() for k, t in s.items() if k != "step"} == {DEVICE}
    trained(here, optimizers[0], "cpu", steps=1)
    trained(there, optimizers[1], DEVICE, steps=1)


def test_there_and_back():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    held = list(model.parameters())
    held[0].tag = "mine"
    before = copy.deepcopy(model.state_dict())
    for back in (lambda m: m.cpu(), lambda m: m.to("cpu"), lambda m: m.to(torch.device("cpu"), torch.float64)):
        model.to(DEVICE)
        assert all(a is b and a.device == DEVICE for a, b in zip(model.parameters(), held, strict=True))
        assert {b.device for b in model.buffers()} == {DEVICE}
        back(model)
        assert all(a is b and type(a) is nn.Parameter for a, b in zip(model.parameters(), held, strict=True))
        assert {t.device.type for t in model.state_dict().values()} == {"cpu"}
    assert held[0].__dict__ == {"tag": "mine"} and held[0].dtype is torch.float64
    assert all(torch.equal(t.double(), before[name].double()) for name, t in model.state_dict().items())


def test_gradients_move_and_stay_the_same_objects():
    layer = nn.Linear(3, 2)
    layer(torch.ones(1, 3)).sum().backward()
    grads = [p.grad for p in layer.parameters()]
    layer.to(DEVICE)
    assert all(p.grad is g and g.device == DEVICE for p, g in zip(layer.parameters(), grads, strict=True))
    layer(torch.ones(1, 3, device=DEVICE)).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0] * 3] * 2
    layer.cpu()
    assert layer.weight.grad is grads[0] and type(grads[0]) is torch.Tensor and grads[0].tolist() == [[2.0] * 3] * 2


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_gradient_with_a_graph_moves():
    layer = nn.Linear(2, 1)
    torch.autograd.backward(layer(torch.ones(1, 2)).square().sum(), create_graph=True)
    layer.to(DEVICE)
    assert layer.weight.grad.device == DEVICE and layer.weight.grad.requires_grad
    layer.zero_grad()  # a cycle otherwise


def test_a_gradient_that_cannot_move_leaves_the_parameter_where_it_is():
    table = nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(NotImplementedError, match="sparse"):
        table.to(DEVICE)
    assert table.weight.device.type == "cpu" and table.weight.grad.is_sparse


def test_frozen_parameters_and_integers():
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    layer.codes = nn.Parameter(torch.arange(3), requires_grad=False)
    held = list(layer.parameters())
    layer.to(DEVICE)
    assert [p.requires_grad for p in layer.parameters()] == [True, False, False]
    assert all(a is b for a, b in zip(layer.parameters(), held, strict=True)) and layer.codes.tolist() == [0, 1, 2]


@pytest.mark.parametrize("start, end", [("cpu", DEVICE), (DEVICE, "cpu")])
def test_a_graph_from_before_the_move_is_refused_and_later_ones_are_not(start, end):
    layer = nn.Linear(2, 2).to(start)
    weight, x = layer.weight, torch.ones(1, 2, requires_grad=True)
    not_differentiated = layer(x.to(start)).sum()  # its nodes hold the weight
    layer.to(end)
    assert layer.weight is weight and weight.device == torch.device(end)
    with pytest.raises(RuntimeError, match=r"call \.to\(device\) before the forward pass or after backward\(\)"):
        not_differentiated.backward()
    assert weight.grad is None
    layer(x.to(end)).sum().backward()
    assert weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    del not_differentiated
    gc.collect()
    assert layer(x.to(end)).device == torch.device(end)


def test_a_model_that_was_trained_with_its_loss_still_held():
    here, there = pair(lambda: nn.Linear(2, 2))
    losses = [m(torch.ones(1, 2)).square().sum() for m in (here, there)]
    for loss in losses:
        loss.backward()
    there.to(DEVICE)
    for model, device in ((here, "cpu"), (there, DEVICE)):
        model(torch.ones(1, 2, device=device)).square().sum().backward()
    equal(there.weight.grad, here.weight.grad, CLOSE)


def test_hooks_weak_references_and_autocasts_cache():
    layer, ran = nn.Linear(2, 2), []
    weak = weakref.ref(layer.weight)
    handle = layer.weight.register_hook(lambda g: ran.append(g.device))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(torch.ones(1, 2))
        layer.to(DEVICE)
    assert weak() is layer.weight
    layer(torch.ones(1, 2, device=DEVICE)).sum().backward()
    assert ran == [DEVICE]
    handle.remove()
    layer(torch.ones(1, 2, device=DEVICE)).sum().backward()
    assert ran == [DEVICE]


def test_copies_and_dtypes_on_the_device():
    model = Tied().to(DEVICE)
    copied = copy.deepcopy(model)
    assert copied.head.weight is copied.embed.weight is not model.embed.weight
    assert isinstance(copied.embed.weight, nn.Parameter)
    weight = model.embed.weight
    for convert, dtype in ((nn.Module.half, torch.float16), (nn.Module.bfloat16, torch.bfloat16)):
        convert(model)
        assert model.head.weight is model.embed.weight is weight and (weight.dtype, weight.device) == (dtype, DEVICE)
    model.to("cpu", torch.float32).load_state_dict(copied.state_dict())
    assert model.head.weight is weight and torch.equal(weight, copied.embed.weight.cpu())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.utils.weight_norm(nn.Linear(2, 2)),  # holds a graph of its parameters from the start
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
        lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2)).eval(),
        lambda: nn.LSTM(2, 2),  # holds weak references to its parameters
    ],
)
def test_modules_that_hold_on_to_their_parameters(make):
    def first(result):
        return result[0] if isinstance(result, tuple) else result

    here, there = pair(make)
    held = list(there.parameters())
    first(there(torch.ones(1, 2)))
    there.to(DEVICE)
    assert all(a is b for a, b in zip(there.parameters(), held, strict=True))
    got, expected = (first(m(torch.ones(1, 2, device=d))) for m, d in ((there, DEVICE), (here, "cpu")))
    equal(got, expected, CLOSE)
    got.sum().backward()
    expected.sum().backward()
    for a, b in zip(there.parameters(), here.parameters(), strict=True):
        equal(a.grad, b.grad, CLOSE)
    assert torch.allclose(first(there.cpu()(torch.ones(1, 2))), expected, atol=CLOSE)


def test_a_move_in_inference_mode():
    layer = nn.Linear(2, 2)
    weight, before = layer.weight, layer(torch.ones(1, 2))
    with torch.inference_mode():
        layer.to(DEVICE)
        equal(layer(torch.ones(1, 2, device=DEVICE)), before, CLOSE)
    assert layer.weight is weight and weight.requires_grad
    with pytest.raises(RuntimeError, match="before the forward pass"):
        before.sum().backward()


def test_memory_made_on_the_device():
    with torch.device("meta"):
        model = Tied()
    weight = model.embed.weight
    model.to_empty(device=DEVICE)
    assert model.head.weight is model.embed.weight is weight and weight.device == DEVICE


def test_conversions_elsewhere_and_their_flags_are_pytorchs_own():
    layer = nn.Linear(2, 2)
    weight, memory = layer.weight, layer.weight.data_ptr()
    layer.double()
    assert layer.weight is weight and weight.data_ptr() != memory
    assert layer.to("meta").weight is not weight  # there PyTorch makes new ones
    flags = torch.__future__
    assert not flags.get_swap_module_params_on_conversion()
    flags.set_swap_module_params_on_conversion(True)
    try:
        layer = nn.Linear(2, 2)
        weight = layer.weight
        layer(torch.ones(1, 2)).sum().backward()
        grad = weight.grad
        assert layer.to(DEVICE).weight is weight and weight.grad is grad and grad.device == DEVICE
        assert layer.cpu().weight is weight and grad.device.type == "cpu"
        assert flags.get_swap_module_params_on_conversion()
    finally:
        flags.set_swap_module_params_on_conversion(False)
    flags.set_overwrite_module_params_on_conversion(True)
    try:
        layer = nn.Linear(2, 2)
        weight = layer.weight
        assert layer.to(DEVICE).weight is not weight and weight.device.type == "cpu"
    finally:
        flags.set_overwrite_module_params_on_conversion(False)


class Lazy(nn.Module):
    """Each kind of lazy parameter and buffer."""

    def __init__(self, **where) -> None:
        super().__init__()
        self.conv = nn.LazyConv1d(3, 2, **where)
        self.norm = nn.LazyBatchNorm1d(**where)
        self.head = nn.LazyLinear(2, **where)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)))


def test_lazy_modules_are_made_where_they_were_moved_to():
    x = torch.arange(24.0).view(2, 3, 4)
    here, there = pair(Lazy)
    there.to(DEVICE)
    weight = there.conv.weight
    assert nn.parameter.is_lazy(weight) and weight.device == there.norm.running_mean.device == DEVICE
    optimizer = torch.optim.SGD(there.parameters(), lr=0.1)
    copied = copy.deepcopy(there)
    for model, at in ((here, x), (there, x.to(DEVICE)), (copied, x.to(DEVICE))):
        model(at)
    here(x), there(x.to(DEVICE))
    assert there.conv.weight is weight and type(there.conv) is nn.Conv1d and not nn.parameter.is_lazy(weight)
    assert isinstance(weight, nn.Parameter) and copied.conv.weight.device == DEVICE
    there.load_state_dict(here.state_dict())
    for a, b in zip(there.state_dict().values(), here.state_dict().values(), strict=True):
        equal(a, b)
    for model, at, steps in ((here, x, torch.optim.SGD(here.parameters(), lr=0.1)), (there, x.to(DEVICE), optimizer)):
        model(at).square().sum().backward()
        steps.step()
    equal(weight.detach(), here.conv.weight.detach(), 1e-4)
    equal(there.norm.running_mean, here.norm.running_mean, 1e-5)


def test_lazy_modules_of_the_device_and_back_on_the_cpu():
    made = Lazy(device=DEVICE)
    assert made.head.bias.device == made.norm.running_var.device == DEVICE
    back = copy.deepcopy(made).cpu().to(torch.float64)
    assert type(back.head.weight) is nn.UninitializedParameter and back.head.weight.device.type == "cpu"
    assert not back.head.weight.__dict__
    assert back(torch.ones(2, 3, 4, dtype=torch.float64)).dtype is torch.float64
    half = made.to(torch.bfloat16)
    assert half.conv.weight.device == DEVICE
    assert half(torch.ones(2, 3, 4, dtype=torch.bfloat16, device=DEVICE)).dtype is torch.bfloat16
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        _ = Lazy(device=DEVICE).head.weight.shape
    assert nn.LazyLinear(2).to("meta").weight.device.type == "meta"


def test_lazy_modules_take_their_shapes_from_what_they_load():
    state = nn.Linear(3, 2).state_dict()
    model = nn.LazyLinear(2).to(DEVICE)
    model.load_state_dict(state)
    for name, value in model.state_dict().items():
        equal(value, state[name])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_fused_cell_rounds_each_result_once(dtype):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=generator).to(dtype).to(DEVICE)

    def once(operation, *operands):
        """What float32 gives, rounded."""
        wide = operation(*[o.float() if isinstance(o, torch.Tensor) else o for o in operands])
        for a, b in zip(operation(*operands), wide, strict=True):
            if b is not None:
                equal(a, b.to(dtype).cpu())

    aten, h = torch.ops.aten, draw(8, 5)
    for gates, cell in ((20, aten._thnn_fused_lstm_cell), (15, aten._thnn_fused_gru_cell)):
        once(cell, draw(8, gates), draw(8, gates), h, draw(gates), draw(gates))
    once(aten._thnn_fused_lstm_cell_backward_impl, draw(8, 5), draw(8, 5), h, draw(8, 5), draw(8, 20), False)
    once(lambda *operands: aten._thnn_fused_gru_cell_backward(*operands)[:3], draw(8, 5), draw(8, 25), False)

"""Wrong programs raise what PyTorch raises, in its words, and lose nothing of what other tensors wait for."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.nn import functional

import truecast as tc
from tests.device.beside import DEVICE, beside, raised
from truecast.capture.device.state import state
from truecast.errors import UnsupportedError

ones = torch.ones

WRONG = {
    "matmul": lambda d: ones(2, 3, device=d) @ ones(2, 3, device=d),
    "broadcast": lambda d: ones(2, 3, device=d) + ones(4, device=d),
    "select": lambda d: ones(3, device=d)[5],
    "index": lambda d: ones(3, device=d)[torch.tensor([5])],
    "index_put": lambda d: ones(3, device=d).index_put_((torch.tensor([-4]),), ones(1, device=d)),
    "mask": lambda d: ones(3, 3, device=d)[ones(4, dtype=torch.bool, device=d)],
    "view": lambda d: ones(2, 3, device=d).view(5),
    "cat": lambda d: torch.cat([ones(2, 3, device=d), ones(2, 4, device=d)]),
    "linear": lambda d: functional.linear(ones(2, 3, device=d), ones(4, 5, device=d)),
    "linear dtype": lambda d: functional.linear(ones(2, 3, device=d), ones(4, 3, device=d, dtype=torch.bfloat16)),
    "result type": lambda d: ones(2, device=d, dtype=torch.long).add_(1.5),
    "expanded": lambda d: ones(3, device=d).expand(2, 3).add_(1),
    "in place": lambda d: ones(2, device=d).add_(ones(3, 2, device=d)),
    "item": lambda d: ones(3, device=d).item(),
    "embedding": lambda d: functional.embedding(torch.tensor([1.0], device=d), ones(3, 2, device=d)),
    "index_select": lambda d: ones(2, 3, device=d).index_select(0, torch.tensor([1.0], device=d)),
    "softmax": lambda d: ones(2, 3, device=d).softmax(5),
    "copy": lambda d: ones(3, device=d).copy_(ones(4, device=d)),
    "truth": lambda d: bool(ones(3, device=d)),
    "as_strided": lambda d: ones(4, device=d).as_strided((2, 2), (1, 2), 1),
    "as_strided of a copied view": lambda d: ones(2, 4, device=d)[1:].clone().as_strided((2, 2), (1, 2), 1),
    "leaf": lambda d: ones(3, device=d).requires_grad_().add_(1),
    "max of nothing": lambda d: ones(0, 3, device=d).max(),
    "argmin of nothing": lambda d: ones(0, device=d).argmin(),
    "view of a leaf": lambda d: ones(3, device=d).requires_grad_()[1:].add_(1),
    "softmax of integers": lambda d: ones(3, device=d, dtype=torch.long).softmax(0),
    "order of complex numbers": lambda d: torch.lt(*[ones(2, device=d, dtype=torch.complex64)] * 2),
    "operator of complex numbers": lambda d: ones(2, device=d, dtype=torch.complex64) < 1,
    "bits of floats": lambda d: ones(2, device=d) & ones(2, device=d),
    "mean of integers": lambda d: ones(2, device=d, dtype=torch.long).mean(),
    "difference of truths": lambda d: ones(2, device=d, dtype=torch.bool) - ones(2, device=d, dtype=torch.bool),
    "gradient of integers": lambda d: ones(2, device=d, dtype=torch.long).requires_grad_(),
    "random integers": lambda d: ones(2, device=d, dtype=torch.long).uniform_(),
    "assignment by indices": lambda d: ones(3, device=d).__setitem__(torch.tensor([0, 1]), ones(3, device=d)),
    "assignment by a mask": lambda d: ones(3, device=d).__setitem__(ones(3, device=d).bool(), ones(2, device=d)),
    "assignment": lambda d: ones(3, device=d).__setitem__(slice(0, 2), ones(3, device=d)),
    "fill": lambda d: ones(2, device=d).fill_(ones(1, device=d)),
    "fill with too much": lambda d: torch.full((2,), 300, dtype=torch.uint8, device=d),
    "fill with too much in place": lambda d: ones(2, dtype=torch.int8, device=d)[1:].fill_(200),
    "fill with no number": lambda d: ones(2, dtype=torch.long, device=d).fill_(float("nan")),
    "result into another dtype": lambda d: torch.add(ones(2, device=d), 1.5, out=ones(2, device=d, dtype=torch.long)),
    "product into another dtype": lambda d: torch.mm(
        ones(2, 2, device=d), ones(2, 2, device=d), out=ones(2, 2, device=d, dtype=torch.double)
    ),
    "maximum into another dtype": lambda d: torch.max(
        ones(2, 2, device=d), 0, out=(ones(2, device=d), ones(2, device=d))
    ),
    "cat into another dtype": lambda d: torch.cat([ones(2, device=d)], out=ones(2, device=d, dtype=torch.long)),
    "gradient into a result": lambda d: torch.add(ones(2, device=d, requires_grad=True), 1, out=ones(2, device=d)),
    "result into an expanded one": lambda d: torch.add(ones(2, device=d), 1, out=ones(1, device=d).expand(2)),
    "lists of different shapes": lambda d: torch._foreach_add_([ones(2, device=d)], [ones(3, 2, device=d)]),
    "copy off the device": lambda d: ones(3).copy_(ones(2, 2, device=d)),
    "narrow": lambda d: ones(3, device=d).narrow(0, 2, 5),
    "gather": lambda d: ones(2, 3, device=d).gather(0, torch.zeros(1, 5, dtype=torch.long, device=d)),
    "backward": lambda d: (ones(3, device=d).requires_grad_() * 2).backward(),
    "gradient of another shape": lambda d: setattr(ones(2, device=d).requires_grad_(), "grad", ones(3, device=d)),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_pytorchs(name):
    assert raised(WRONG[name], DEVICE) == raised(WRONG[name], "cpu")
    assert raised(WRONG[name], "cpu")[1]


def test_two_devices_in_one_operation():
    for wrong in (
        lambda: ones(3, device=DEVICE) + ones(3),
        lambda: ones(3).add_(ones(3, device=DEVICE)),
        lambda: torch.add(ones(3, device=DEVICE), 1, out=ones(3)),
        lambda: torch.add(ones(3), 1, out=ones(3, device=DEVICE)),
        lambda: ones(3, 3, device=DEVICE)[1].mul_(ones(3)),
        lambda: torch.cat([ones(3, device=DEVICE), ones(3)]),
        lambda: torch.nn.Linear(3, 3)(ones(3, device=DEVICE)),
        lambda: functional.embedding(torch.tensor([0]), ones(3, 3, device=DEVICE)),
        lambda: ones(3)[torch.tensor([0], device=DEVICE)],
        lambda: torch._foreach_add([ones(3, device=DEVICE)], [ones(3)]),
    ):
        with pytest.raises(RuntimeError) as refused:
            wrong()
        assert str(refused.value) == (
            "Expected all tensors to be on the same device, but found at least two devices, pjrt:0 and cpu!"
        )


def test_another_index_than_0():
    for wrong in (lambda: ones(3, device="pjrt:1"), lambda: ones(3).to("pjrt:1"), lambda: torch.pjrt.set_device(1)):
        with pytest.raises(RuntimeError) as refused:
            wrong()
        assert str(refused.value) == "invalid device ordinal: pjrt:1. There is one pjrt device in a process, pjrt:0"


def test_dtypes_that_are_no_numbers():
    for wrong in (
        lambda: torch.empty(2, device=DEVICE, dtype=torch.float8_e8m0fnu),
        lambda: ones(2, device=DEVICE).to(torch.bits8),
        lambda: torch.quantize_per_tensor(ones(2, device=DEVICE), 0.1, 0, torch.qint8),
    ):
        with pytest.raises(UnsupportedError, match=r"^torch\.(float8_e8m0fnu|bits8|qint8) on the pjrt device"):
            wrong()


def test_a_dtype_contract_names_the_line_that_brought_the_other_dtype_in():
    weight = ones(4, 3, device=DEVICE, dtype=torch.bfloat16)
    latents = ones(2, 3, device=DEVICE, dtype=torch.bfloat16)
    sigma = torch.rand(1, 1, device=DEVICE)
    noisy = sigma * latents
    with pytest.raises(RuntimeError, match="expected m1 and m2 to have the same dtype") as refused:
        functional.linear(noisy.neg(), weight)
    first, origin = refused.value.__notes__
    assert first.startswith("in test_errors.py:")
    assert origin.startswith("float32 comes from test_errors.py:")
    assert origin.endswith("mul(float32[1,1], bfloat16[2,3]) -> float32\n    sigma * latents")


def test_the_policy_may_cast_instead():
    weight = ones(4, 3, device=DEVICE, dtype=torch.bfloat16)
    with tc.numerics(tc.Numerics.preset("cpu").with_settings(on_mismatch="cast")):
        out = functional.linear(ones(2, 3, device=DEVICE), weight)
        assert (out.dtype, out.sum().item()) == (torch.bfloat16, 24.0)


def test_operations_keep_the_policy_they_were_asked_for_under():
    x = torch.full((1,), 1.0, device=DEVICE, dtype=torch.bfloat16)
    small = torch.full((1,), 2.0**-9, device=DEVICE, dtype=torch.bfloat16)
    region, each = (tc.Numerics.preset("cpu").with_rule(compute="opmath", rounding=r) for r in ("region", "op"))
    with tc.numerics(region):
        wide = x + small - x
    with tc.numerics(each):
        narrow = x + small - x
    assert (wide.item(), narrow.item()) == (2.0**-9, 0.0)


UNHELD = {
    "chalf": (lambda x: x.chalf(), "aten._to_copy.default gives complex32, which XLA does not have"),
    "arithmetic": (lambda x: x.half() * 1j, "aten.mul.Tensor gives complex32, which XLA does not have"),
    "a view": (lambda x: x.view(torch.complex32), "aten.view.dtype gives complex32, which XLA does not have"),
    "a sum": (lambda x: x.sum(dtype=torch.complex32), "aten.sum.default gives complex32, which XLA does not have"),
    "a factory": (
        lambda x: torch.zeros(2, dtype=torch.complex32, device=DEVICE),
        "a tensor made on the pjrt device has dtype complex32, which XLA does not have",
    ),
    "a tensor of the CPU": (
        lambda x: torch.zeros(2, dtype=torch.complex32).to(DEVICE),
        "a tensor made on the pjrt device has dtype complex32, which XLA does not have",
    ),
    "an operand of the CPU": (
        lambda x: x + torch.zeros((), dtype=torch.complex32),
        "a tensor that goes to the pjrt device has dtype complex32, which XLA does not have",
    ),
}


@pytest.mark.parametrize("name", UNHELD)
def test_complex32_is_refused_by_what_would_make_it_with_the_way_out(name):
    make, what = UNHELD[name]
    pending = ones(2, device=DEVICE) * 2
    with pytest.raises(UnsupportedError) as refused:
        make(ones(2, device=DEVICE))
    assert refused.value.what == what
    assert str(refused.value.where).startswith("test_errors.py:")
    assert "x.to(torch.complex64)" in refused.value.help
    assert pending.tolist() == [2.0] * 2


ON_DEVICE = {
    "embedding": lambda x, i: functional.embedding(i, x),
    "index": lambda x, i: x[i],
    "index of the second dimension": lambda x, i: x[:, i],
    "index of both": lambda x, i: x[i % 3, i],
    "index_put": lambda x, i: x.clone().index_put_((i,), x.sum()),
    "assignment": lambda x, i: x.clone().__setitem__(i, 2.0),
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(1, i.view(1, 2)),
    "scatter": lambda x, i: x.clone().scatter_(0, i.view(1, 2), 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i.view(1, 2), x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i.view(1, 2), x, "amax"),
    "index_add": lambda x, i: x.index_add(0, i, x[:2]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:2]),
    "index_fill": lambda x, i: x.index_fill(0, i, 2.0),
    "take": lambda x, i: x.take(i * 3),
    "put": lambda x, i: x.clone().put_(i * 3, x[0, :2]),
    "nll_loss": lambda x, i: functional.nll_loss(x[:2], i),
    "nll_loss with one to ignore": lambda x, i: functional.nll_loss(x[:2], i, ignore_index=5),
    "cross_entropy": lambda x, i: functional.cross_entropy(x[:2], i),
    "multi_margin_loss": lambda x, i: functional.multi_margin_loss(x[:2], i),
    "embedding_bag": lambda x, i: functional.embedding_bag(i.view(1, 2), x, mode="max"),
}


@pytest.mark.parametrize("name", ON_DEVICE)
@pytest.mark.parametrize("index", [[1, 5], [-1, 1], [-20, 0]])
def test_an_index_on_the_device_out_of_bounds_raises_where_a_value_is_read(name, index):
    def read(device):
        result = ON_DEVICE[name](torch.arange(12.0, device=device).view(3, 4), torch.tensor(index, device=device))
        tc.sync(wait=True)
        return result

    try:
        read("cpu")
    except (IndexError, RuntimeError) as error:
        refused = type(error), str(error)
    else:
        read(DEVICE)
        return
    with pytest.raises(refused[0]) as ours:
        read(DEVICE)
    assert str(ours.value) == refused[1]
    assert ours.value.__notes__[0].startswith("in aten.")
    assert ours.value.__notes__[0].rpartition(" at ")[2].startswith("test_errors.py:")
    tc.sync(wait=True)


def test_values_can_be_read_after_an_index_was_out_of_bounds():
    x = torch.arange(3.0, device=DEVICE)
    doubled, wrong = x * 2, x[torch.tensor([3], device=DEVICE)]
    with pytest.raises(IndexError):
        wrong.cpu()
    assert doubled.tolist() == [0.0, 2.0, 4.0]


def test_a_loop_that_reads_nothing_hears_of_a_wrong_index_at_the_next_sync():
    x, index = torch.arange(3.0, device=DEVICE), torch.tensor([3], device=DEVICE)
    y = x[index]
    tc.sync()
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        tc.sync()
    del y


def test_an_error_loses_nothing_that_is_pending():
    y = ones(3, device=DEVICE) * 2
    with pytest.raises(RuntimeError):
        y @ ones(4, 4, device=DEVICE)
    assert y.sum().item() == 6


def test_a_program_that_cannot_be_compiled_gives_what_it_can(monkeypatch):
    tc.sync()
    prepare = state.tape.executor.prepare

    def refuse_sine(graph, donate, policy):
        if any(node.op == "aten.sin.default" for node in graph.nodes):
            raise RuntimeError("no room for a sine")
        return prepare(graph, donate, policy)

    monkeypatch.setattr(state.tape.executor, "prepare", refuse_sine)
    x = torch.arange(3.0, device=DEVICE)
    doubled = x * 2
    failed = doubled.sin()
    after = failed + 1
    other = doubled + 1
    assert other.tolist() == [1.0, 3.0, 5.0]
    for lost in (failed, after):
        with pytest.raises(RuntimeError, match="no room for a sine") as refused:
            lost.cpu()
        assert refused.value.__notes__[0].startswith("in aten.sin.default at test_errors.py:")
    pending = x.sin()
    with pytest.raises(RuntimeError, match="no room for a sine"):
        tc.sync()
    del pending


def test_no_room_for_a_value_is_pytorchs_own_error_and_loses_nothing_else():
    doubled = ones(3, device=DEVICE) * 2
    too_large = ones(1 << 60, device=DEVICE)
    with pytest.raises(torch.OutOfMemoryError, match=r"pjrt out of memory: .* 4611686018427387904 bytes") as refused:
        too_large[:3].cpu()
    assert refused.value.__notes__[0].startswith("in aten.full.default at test_errors.py:")
    assert doubled.tolist() == [2.0, 2.0, 2.0]


TOO_LARGE = {
    "in place": lambda: torch.zeros(1 << 58, device=DEVICE).add_(1)[:2],
    "out": lambda: torch.add(torch.zeros(1 << 58, device=DEVICE), 1, out=torch.zeros(0, device=DEVICE))[:2],
    "through a view": lambda: torch.zeros(1 << 58, device=DEVICE).view(2, -1)[0].fill_(3)[:2],
    "a product": lambda: (ones(1 << 30, 1, device=DEVICE) @ ones(1, 1 << 30, device=DEVICE))[0, 0],
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_no_room_for_what_is_written(name):
    pending = ones(3, device=DEVICE)
    pending[1:].mul_(2)
    with pytest.raises(torch.OutOfMemoryError, match=r"^pjrt out of memory: .* \d+ bytes"):
        TOO_LARGE[name]().cpu()
    assert pending.tolist() == [1.0, 2.0, 2.0]


def test_the_cpu_may_be_forbidden(monkeypatch):
    monkeypatch.setenv("TRUECAST_FALLBACK", "error")
    x = ones(3, 3, device=DEVICE)
    with pytest.raises(UnsupportedError, match="TRUECAST_FALLBACK=error forbids the CPU"):
        torch.ops.aten._foobar.default(x)


def test_the_cpu_helps_once_with_a_warning():
    x = ones(3, 3, device=DEVICE)
    before = tc.metrics().fallbacks.get("aten._foobar.default", 0)
    with pytest.warns(UserWarning, match="aten._foobar.default runs on the CPU: truecast has no lowering"):
        torch.ops.aten._foobar.default(x)
    torch.ops.aten._foobar.default(x)
    assert tc.metrics().fallbacks["aten._foobar.default"] == before + 2


def test_each_operation_at_once():
    state.tape.eager = True
    try:
        x = ones(3, device=DEVICE)
        y = x.view(3, 1).expand(3, 2)
        x.add_(1)
        runs = tc.metrics().runs
        z = y.t() * 2
        assert tc.metrics().runs > runs
        assert z.tolist() == [[4.0] * 3] * 2
        with pytest.raises(IndexError, match=r"^index 7 is out of bounds for dimension 0 with size 3"):
            x[torch.tensor([7], device=DEVICE)]
    finally:
        state.tape.eager = False


LATE = """
import torch, truecast as tc
torch.ones(1, requires_grad=True).sum().backward()
x = torch.arange(3.0, device=tc.device(), requires_grad=True)
(x * x).sum().backward()
print(x.grad.tolist())
"""


def test_a_device_made_after_a_backward_pass_differentiates():
    ran = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=True)
    assert ran.stdout == "[0.0, 2.0, 4.0]\n"


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_an_index_of_a_bag_out_of_bounds(mode):
    with pytest.raises(RuntimeError, match="found idx to be 3"):
        functional.embedding_bag(torch.tensor([[0, 3]], device=DEVICE), ones(3, 2, device=DEVICE), mode=mode).cpu()


READS_OF_NOTHING = {
    "index": lambda x, i: x[i],
    "index of the second dimension": lambda x, i: x.t()[:, i],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i.view(-1, 1)),
    "embedding": lambda x, i: functional.embedding(i, x),
}


@pytest.mark.parametrize("name", READS_OF_NOTHING)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int8, torch.uint8, torch.complex64])
def test_each_index_of_an_empty_dimension_is_out_of_bounds(name, dtype):
    for device in ("cpu", DEVICE):
        x, i = torch.zeros(0, 4, dtype=dtype, device=device), torch.tensor([0], device=device)
        with pytest.raises((IndexError, RuntimeError), match=r"out of bounds|out of range|should be positive"):
            READS_OF_NOTHING[name](x, i).cpu()
        assert READS_OF_NOTHING[name](x, i[:0]).numel() == 0


GONE = """
import jax.extend.backend, torch, truecast as tc
x = torch.ones(3, device=tc.device()) * 2
tc.sync()
y = x + 1
jax.extend.backend.clear_backends()
print(x.tolist(), y.tolist())
x._alias.value.buffer.delete()
for use in (lambda: x.cpu(), lambda: (x + 1).cpu()):
    try:
        use()
    except RuntimeError as error:
        print(str(error).startswith("pjrt: INVALID_ARGUMENT"))
print(y.tolist())
"""


@pytest.mark.slow  # a process of its own
def test_use_after_the_runtime_or_a_buffer_was_deleted_ends_no_process():
    ran = subprocess.run([sys.executable, "-c", GONE], capture_output=True, text=True, check=True)
    assert ran.stdout == "[2.0, 2.0, 2.0] [3.0, 3.0, 3.0]\nTrue\nTrue\n[3.0, 3.0, 3.0]\n"


PUTS = {
    "index_put_": lambda x, v: x.index_put_((torch.tensor([0], device=x.device),), v[:1]),
    "index_put": lambda x, v: torch.index_put(x, (torch.tensor([1], device=x.device),), v[0]),
    "an index": lambda x, v: x.__setitem__(torch.tensor([0]), v[:1]),
    "one element": lambda x, v: x.__setitem__((torch.tensor([0]), torch.tensor([1])), v[0, 0]),
    "a mask": lambda x, v: x.__setitem__(x == 1, v.flatten()),
}


@pytest.mark.parametrize("name", PUTS)
def test_a_write_of_another_dtype_through_indices_names_where_that_comes_from(name):
    errors = []
    for device in ("cpu", DEVICE):
        x, narrow = (torch.ones(3, 3, device=device, dtype=torch.bfloat16) for _ in range(2))
        wide = narrow * torch.ones(3, 1, device=device)
        with pytest.raises(RuntimeError) as found:
            PUTS[name](x, wide)
        errors.append(found.value)
    assert (type(errors[0]), str(errors[0])) == (type(errors[1]), str(errors[1]))
    place, origin = errors[1].__notes__
    assert place.startswith("in test_errors.py:")
    assert origin.startswith("float32 comes from test_errors.py:")
    if name != "a mask":  # which has been waited for
        assert origin.endswith("narrow * torch.ones(3, 1, device=device)")


def test_one_number_through_a_mask_takes_the_dtype_that_it_is_written_to():
    for value in (torch.tensor(2.5), torch.tensor([2.5], dtype=torch.float64), torch.tensor(3)):
        beside(lambda x, v: x.masked_fill(x > 0, 0).index_put_((x > 0,), v), torch.ones(3, 3).bfloat16(), value)

"""Tensors of the device are what PyTorch's are: views that write through, in-place, out=, indexing, factories."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import truecast as tc
from tests.device.beside import DEVICE, beside, equal, raised
from truecast.errors import UnsupportedError


def test_views_write_through_in_chains_both_ways():
    def program(x):
        a = x.t()
        b = a[1:]
        b.mul_(2)
        c = x.view(-1)[3:]
        c.add_(1)
        d = x.diagonal()
        d.zero_()
        g = x.as_strided((2, 2), (1, 4), 1)
        g.neg_()
        h, i = x.chunk(2, 1)
        h.copy_(i)
        x.select(0, 1).fill_(7.0)
        u = x.unfold(0, 2, 2)
        u.add_(1)
        j = x[:, ::2]
        j += 1
        x.unsqueeze(1).squeeze(1).sub_(1)
        x.view(2, 2, 4)[1, 0].mul_(3)
        parts = x.split([1, 3], 0)
        parts[1].t()[0].add_(5)
        return a, b, c, d, g, h, i, u, j, x.unsqueeze(0).expand(3, 4, 4), *parts, *x.unbind(1)

    beside(program, (4, 4))


def test_a_view_is_read_anew_after_its_memory_ran_and_was_written():
    x = torch.zeros(4, 4, device=DEVICE)
    row = x.t()[1]
    tc.sync()
    x.add_(1)
    tc.sync()
    row.mul_(3)
    assert x.cpu().sum() == 16 + 8
    assert row.tolist() == [3.0] * 4


def test_a_write_through_a_chain_whose_middle_a_run_has_dropped():
    for chain in (
        lambda x: x[1:][:, ::2],
        lambda x: x.t()[1][1:],
        lambda x: x.view(2, 8)[1].view(2, 4).diagonal(),
        lambda x: x.unsqueeze(0)[0, 2:].select(1, 1),
    ):

        def program(x, chain=chain):
            view = chain(x)
            view.cpu()  # keeps the view's value and the memory's, and no value between them
            view.mul_(3)
            x.add_(1)
            return view

        beside(program, (4, 4))


def test_resizing_keeps_the_memory_and_an_empty_out_writes_what_lies_behind_it():
    def program(x):
        whole = x.view(-1)
        whole[2:5].resize_(2, 3).mul_(2)
        shorter = x.clone()
        row = shorter[1]
        shorter.resize_(2, 3).zero_()
        torch.arange(-2, 0, out=whole[9:9])
        return shorter, row, torch.fft.fftfreq(5, device=x.device)

    beside(program, (3, 4))


def test_views_in_place():
    def program(x):
        x = x.clone()
        x.t_()
        x.unsqueeze_(0)
        x.squeeze_(0)
        y = x.clone().resize_(2, 2)
        return x.transpose_(0, 1), y

    beside(program, (3, 4))


def test_copies_by_strides_see_the_memory_between_the_elements_of_a_view():
    def program(x):
        half = x[:, ::2]
        copied = torch.as_strided_copy(half, (3, 2), (2, 1), 1)
        scattered = torch.as_strided_scatter(half, x.view(-1)[:4].view(2, 2), (2, 2), (4, 2), 2)
        return copied, scattered.clone(), half

    beside(program, (4, 4))


def test_forms_that_write_what_others_return():
    def program(x):
        lists = [x.clone(), x[0].clone()]
        torch._foreach_mul_(lists, 2.0)
        torch._foreach_add_(lists, [x.neg(), x[1]])
        torch._foreach_zero_([made := torch.ones_like(x)])
        parts = [torch.empty_like(row) for row in x]
        torch.unbind_copy(x, out=parts)
        softened = torch.empty_like(x)
        torch.softmax(x.zero_(), 1, out=softened)
        conjugate = torch.conj_physical(x, out=torch.empty_like(x)).conj_physical_()
        return *lists, made, *parts, softened, conjugate

    beside(program, (3, 4))


def test_instance_norm_has_no_statistics_to_write():
    def program(x):
        return torch.nn.functional.instance_norm(x)

    beside(program, (2, 3, 5), tolerance=1e-5)


def test_out():
    def program(a, b):
        made = torch.empty(0, device=a.device)
        torch.add(a, b, out=made)
        same = torch.empty_like(a)
        torch.mul(a, b, out=same)
        transposed = torch.empty(4, 3, device=a.device).t()
        torch.sub(a, b, out=transposed)
        values, indices = torch.empty(0, device=a.device), torch.empty(0, dtype=torch.long, device=a.device)
        torch.max(a, 1, out=(values, indices))
        counted = torch.empty(0, device=a.device)
        torch.arange(5, out=counted)
        return made, same, transposed, values, indices, counted

    beside(program, (3, 4), (3, 4))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_out_of_operations_that_pytorch_composes(mode):
    def products(a, v, m):
        shapes = [(2, 3), (2, 3, 2)]
        outs = [torch.zeros(shape, device=a.device) for shape in shapes]
        assert torch.matmul(a, v, out=outs[0]) is outs[0]
        return [*outs, torch.matmul(a, m, out=outs[1]), torch.linalg.matmul(a, m, out=outs[1])]

    def ranks(matrix):
        outs = [torch.full(shape, 7, device=matrix.device) for shape in ((), (), (), (2,))]
        rank = torch.linalg.matrix_rank
        assert rank(matrix, out=outs[0]) is outs[0]
        rank(matrix, 0.5, hermitian=True, out=outs[1])
        rank(matrix, atol=torch.tensor(0.5, device=matrix.device), out=outs[2])
        rank(torch.stack([matrix, torch.zeros_like(matrix)]), out=outs[3])
        return outs

    with mode():
        beside(products, (2, 3, 4), (4,), (4, 2), tolerance=1e-6)
        beside(ranks, torch.diag(torch.tensor([1.0, 2.0, 0.0])))


def test_an_out_without_elements_is_no_memory_that_is_shared():
    def nothing(t):
        out = torch.nonzero(torch.zeros_like(t))
        assert 0 in out.stride()  # strides (1, 0) of shape (0, 2)
        torch.nonzero(t, out=out)
        return out

    beside(nothing, torch.eye(2))


def test_out_is_not_differentiable():
    a = torch.ones(2, 3, 4, device=DEVICE, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"matmul\(\): functions with out=\.\.\. arguments don't support automatic"):
        torch.matmul(a, torch.ones(4, device=DEVICE), out=torch.zeros(2, 3, device=DEVICE))


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda t, out: torch.mm(t, t, out=out), torch.float64),
        (lambda t, out: torch.matmul(t, t, out=out), torch.float64),
        (lambda t, out: torch.add(t, t, out=out), torch.int64),
        (lambda t, out: torch.add(t, t, out=out), torch.float64),
        (lambda t, out: torch.bmm(t[None], t[None], out=out), torch.bfloat16),
        (lambda t, out: torch.cumsum(t, 0, out=out), torch.float64),
        (lambda t, out: torch.sum(t, 0, out=out), torch.float64),
        (lambda t, out: torch.argmax(t, 0, out=out), torch.int32),
        (lambda t, out: torch.linalg.inv(t, out=out), torch.float64),
        (lambda t, out: torch.linalg.matrix_rank(t, out=out), torch.float32),
    ],
)
def test_an_out_of_another_dtype_is_taken_where_eager_takes_it(function, dtype):
    def attempt(device):
        matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]], device=device)
        out = torch.empty(0, dtype=dtype, device=device)
        function(matrix, out)
        return out

    refusal = raised(attempt, "cpu")
    assert raised(attempt, DEVICE) == refusal
    if refusal[0] is type(None):
        equal(attempt(DEVICE), attempt("cpu"), 1e-6)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_addbmm_resizes_what_it_is_called_on():
    for start in (torch.ones(1), torch.tensor(2.0), torch.ones(5, 2)):
        beside(lambda t, a, b: t.addbmm_(a, b), start.clone(), (2, 5, 3), (2, 3, 2), tolerance=1e-6)


def test_tensors_that_xla_does_not_have_are_refused_in_words():
    with pytest.raises(UnsupportedError, match="has dtype complex32, which XLA does not have"):
        torch.ones(2).chalf().to(DEVICE)
    csr, dense = torch.eye(2).to_sparse_csr().to(DEVICE), torch.ones(2, 2, device=DEVICE)
    with pytest.raises(UnsupportedError, match=r"a torch\.sparse_csr tensor can't be an operand on the pjrt device"):
        torch.sparse.sampled_addmm(csr, dense, dense, out=csr)


def test_indices_of_the_cpu_and_of_the_device():
    def program(x):
        i = torch.tensor([2, 0])
        j = i.to(x.device)
        y = x.clone()
        y[i] = 1
        y[j, 1] = 5.0
        y[y > 1] = 0
        y[y < 0] = y[y < 0] * 2
        y[torch.tensor([True, False, True])] += 1
        y.index_add_(0, j, x[:2])
        y.scatter_(1, torch.zeros(3, 1, dtype=torch.long, device=x.device), 9.0)
        y.masked_fill_(y > 8, 1.0)
        y.index_put_((j,), x[:2], accumulate=True)
        read = (x[i], x[j], x[:, j], x[x > 0], x[j][:, [0, 1]], x[[0, 2], [1, 1]], x[torch.tensor([True, False, True])])
        return y, *read, x.nonzero(), torch.where(x > 0)[0], x.masked_select(x > 0)

    before = tc.metrics().fallbacks
    beside(program, (3, 4))
    assert tc.metrics().fallbacks == before, "what depends on contents waits for them, and is no fallback"


FACTORIES = {
    "zeros": lambda d: torch.zeros(2, 3, device=d),
    "tensor": lambda d: torch.tensor([[1, 2.0]], device=d),
    "as_tensor": lambda d: torch.as_tensor([1, 2], device=d),
    "full": lambda d: torch.full((2,), True, device=d),
    "arange": lambda d: torch.arange(1, 10, 2, device=d),
    "linspace": lambda d: torch.linspace(0, 1, 5, device=d),
    "eye": lambda d: torch.eye(3, 2, device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "new_zeros": lambda d: torch.ones(2, device=d).new_zeros(3),
    "new_tensor": lambda d: torch.ones(2, 3, device=d).new_tensor([1.0, 2]),
    "empty_strided": lambda d: torch.empty_strided((2, 3), (1, 2), device=d).zero_(),
    "complex": lambda d: torch.zeros(2, 3, device=d, dtype=torch.complex64),
    "hann_window": lambda d: torch.hann_window(5, device=d),
    "kaiser_window": lambda d: torch.kaiser_window(5, False, 8.0, device=d),
    "fftfreq": lambda d: torch.fft.fftfreq(5, device=d),
    "float8": lambda d: torch.tensor([1.1, 300.0], device=d).to(torch.float8_e4m3fn).t().clone().float(),
    "channels_last": lambda d: torch.zeros(1, 3, 4, 4, device=d).to(memory_format=torch.channels_last),
    "from_numpy": lambda d: torch.from_numpy(np.ones(3)).to(d),
    "transposed": lambda d: torch.arange(6.0).view(2, 3).t().to(d),
    "scalar_tensor": lambda d: torch.scalar_tensor(3.0, device=d),
    "zeros_like": lambda d: torch.zeros_like(torch.ones(3), device=d),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(name):
    equal(FACTORIES[name](DEVICE), FACTORIES[name]("cpu"), 1e-7)  # a cosine's last bit


def test_tensors_made_elsewhere_from_one_of_the_device():
    x = torch.ones(3, device=DEVICE)
    assert torch.zeros_like(x, device="cpu").device.type == "cpu"
    assert x.new_zeros(3, device="cpu").device.type == "cpu"
    ends = torch.linspace(x[0] * 0, x[0], 3, device="cpu")
    assert (ends.device.type, ends.tolist()) == ("cpu", [0.0, 0.5, 1.0])


def test_set_default_device():
    torch.set_default_device("pjrt")
    try:
        model = nn.Linear(3, 4)
        out = model(torch.randn(2, 3)).sum()
        out.backward()
        torch.optim.AdamW(model.parameters()).step()
        assert {t.device for t in (out, model.weight, torch.tensor([1, 2]), torch.eye(3))} == {DEVICE}
        assert torch.arange(4)[torch.tensor([0, 1])].tolist() == [0, 1]
    finally:
        torch.set_default_device(None)


def test_a_tensor_prints_as_pytorch_prints_it():
    x = torch.arange(3.0, device=DEVICE, requires_grad=True)
    assert repr(x) == "tensor([0., 1., 2.], device='pjrt:0', requires_grad=True)"
    assert repr(x * 2) == "tensor([0., 2., 4.], device='pjrt:0', grad_fn=<MulBackward0>)"
    assert f"{x.sum().detach():.2f}" == "3.00"
    assert repr(nn.Parameter(x)).startswith("Parameter containing:\ntensor([0., 1., 2.], device='pjrt:0'")
    assert (float(x.detach().sum()), len(x), x.detach().tolist()) == (3.0, 3, [0.0, 1.0, 2.0])


def test_numpy_needs_the_cpu():
    with pytest.raises(TypeError) as refused:
        torch.ones(2, device=DEVICE).numpy()
    assert str(refused.value) == (
        "can't convert pjrt:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )
    assert torch.ones(2, device=DEVICE, requires_grad=True).numpy(force=True).tolist() == [1.0, 1.0]


def test_data_is_the_same_memory_and_can_be_replaced():
    x = torch.ones(3, device=DEVICE)
    x.data.add_(1)
    assert x.tolist() == [2.0] * 3
    x.data = torch.zeros(5, device=DEVICE)
    assert x.tolist() == [0.0] * 5
    model = nn.Linear(4, 3).to(DEVICE)
    held = model.weight
    model.to(torch.bfloat16)
    assert held is model.weight
    assert model(torch.ones(2, 4, device=DEVICE, dtype=torch.bfloat16)).dtype is torch.bfloat16


def test_promotion_is_pytorchs():
    beside(
        lambda x: (x.bfloat16() * 1.1, x + torch.tensor(2.0, dtype=torch.float64), x * torch.tensor(2), 2 / x), (3, 4)
    )


def test_complex_views():
    def program(x):
        c = torch.complex(x, x)
        torch.view_as_real(c).mul_(2)
        return c.real, c.imag, c.conj() * 1

    beside(program, (3, 4))


def test_numbers_that_became_inputs_of_one_program_keep_their_signs_and_nans():
    cases = [(1.0, 2.0), (0.0, -0.0), (float("nan"), 1.0), (-0.0, 0.0), (2.0, 2.0), (-0.0, -0.0)]
    for first, second in cases:
        here, there = [
            torch.stack([1 / (torch.ones(3, device=device) * number) for number in (first, second)])
            for device in ("cpu", DEVICE)
        ]
        equal(there, here)
